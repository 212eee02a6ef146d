# `cpack --config build/release/CPackConfig.cmake` makes in build/release/packages: mneme-<version>-Linux.tar.gz with
# everything, and the Debian packages mneme (component runtime), mneme-sdk and mneme-report.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME mneme)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "the mneme project")
set(CPACK_PACKAGE_CONTACT "the mneme project")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_COMPONENTS_ALL runtime sdk report)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # xz takes minutes over LibTorch
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME mneme)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)  # what is not copied: C and C++ runtimes, spdlog, fmt, PCRE2, utf8proc, jemalloc, Open MPI
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${PROJECT_DESCRIPTION}: the program, its memories, experiments and LibTorch")
set(CPACK_DEBIAN_SDK_PACKAGE_NAME mneme-sdk)
set(CPACK_DEBIAN_SDK_PACKAGE_ARCHITECTURE all)
set(CPACK_COMPONENT_SDK_DESCRIPTION "Headers and CMake package with which memories for mneme are built")
set(CPACK_DEBIAN_REPORT_PACKAGE_NAME mneme-report)
set(CPACK_DEBIAN_REPORT_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_REPORT_DESCRIPTION "Reports of compared transformer memories, and verification of their bundles, without LibTorch")
include(CPack)
