# What `cmake --install` and `cpack` make: a tree that works wherever it lies, without this checkout.
#
#   bin/mneme                      the program; its run path is relative
#   bin/mneme-report               reports and bundles alone, without LibTorch; share/man/man1/mneme-report.1
#   lib/mneme/plugins              the memories, found by the program from its own place
#   lib/mneme/torch/lib            the libraries of LibTorch that the program needs
#   share/mneme/configs            experiments and memories
#   share/bash-completion/completions/mneme, share/zsh/site-functions/_mneme, share/man/man1/mneme.1
#                                  where the shells and man(1) look
#   share/doc/mneme                README, docs, the plugins' pages, examples, licence, and the notices of what is copied;
#                                  configs there is a link to share/mneme/configs
#   lib/mneme/installed.txt, share/mneme-sdk/installed.txt
#                                  what was installed, written last: without them an installation is not complete
#   include/mneme, include/mneme_kernels, share/mneme-sdk
#                                  the SDK
#
# Components: runtime (mneme and what it needs), sdk, report (mneme-report alone).
#
# In a Python wheel (MNEME_INSTALL_TORCH=package, which scripts/wheel.sh and `pip install .` set) this tree is mneme/program.
# LibTorch is the package torch beside mneme, and lib/mneme/libraries has the distribution's libraries that the program needs.

set(MNEME_INSTALL_TORCH copy CACHE STRING
  "LibTorch in an installation: copy (what a CPU needs, into the prefix), copy-cuda (its CUDA libraries too), link (left where it is), package (a Python package beside it)")
set_property(CACHE MNEME_INSTALL_TORCH PROPERTY STRINGS copy copy-cuda link package)
if(NOT MNEME_INSTALL_TORCH MATCHES "^(copy|copy-cuda|link|package)$")
  message(FATAL_ERROR "MNEME_INSTALL_TORCH is '${MNEME_INSTALL_TORCH}'; expected copy, copy-cuda, link or package.")
endif()

if(MNEME_INSTALL_TORCH STREQUAL "copy" AND EXISTS "${mneme_torch_root}/lib/libtorch_cuda.so")
  message(NOTICE "mneme: cmake --install copies the part of LibTorch for the CPU alone: the installed program computes on no "
                 "GPU. For one that does: -DMNEME_INSTALL_TORCH=copy-cuda (some GB more), or =link (LibTorch stays in "
                 "${mneme_torch_root}).")
endif()

set(mneme_private_folder "${CMAKE_INSTALL_LIBDIR}/mneme")
set(mneme_plugin_folder "${mneme_private_folder}/plugins")
# The folder torch/lib is LibTorch's own layout: its CUDA libraries look for others in ../../nvidia.
set(mneme_torch_folder "${mneme_private_folder}/torch/lib")
set(mneme_library_folder "${mneme_private_folder}/libraries")
set(mneme_config_folder "${CMAKE_INSTALL_DATADIR}/mneme")
set(mneme_doc_folder "${CMAKE_INSTALL_DATADIR}/doc/mneme")

# From the program's folder to its plugins: what the program is compiled with.
cmake_path(RELATIVE_PATH mneme_plugin_folder BASE_DIRECTORY "${CMAKE_INSTALL_BINDIR}" OUTPUT_VARIABLE MNEME_INSTALLED_PLUGINS)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)

# mneme_install_list(STEP COMPONENT FOLDER): see InstallList.cmake.
function(mneme_install_list step component folder)
  set(sdk FALSE)
  if(component STREQUAL "sdk")
    set(sdk TRUE)
  endif()
  set(cuda "without CUDA")
  if(EXISTS "${mneme_torch_root}/lib/libtorch_cuda.so")
    set(cuda "with CUDA")
  endif()
  install(CODE "set(mneme_list_step ${step})
set(mneme_list_folder \"${folder}\")
set(mneme_list_sdk ${sdk})
set(mneme_list_sdk_folders \"^(${CMAKE_INSTALL_INCLUDEDIR}|${CMAKE_INSTALL_DATADIR}/mneme-sdk)/\")
set(mneme_list_head \"mneme ${PROJECT_VERSION}, ${component}; LibTorch: ${MNEME_INSTALL_TORCH} of a build ${cuda}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/InstallList.cmake\")" COMPONENT ${component})
endfunction()

mneme_install_list(begin runtime "${mneme_private_folder}")
mneme_install_list(begin sdk "${CMAKE_INSTALL_DATADIR}/mneme-sdk")

# The run path of programs that link LibTorch.
if(MNEME_INSTALL_TORCH STREQUAL "link")
  set(mneme_install_rpath "${mneme_torch_root}/lib" ${mneme_torch_toolkit_folders})
elseif(MNEME_INSTALL_TORCH STREQUAL "package")
  # From mneme/program/bin; the package torch lies beside the package mneme.
  cmake_path(RELATIVE_PATH mneme_library_folder BASE_DIRECTORY "${CMAKE_INSTALL_BINDIR}" OUTPUT_VARIABLE mneme_install_rpath)
  set(mneme_install_rpath "$ORIGIN/${mneme_install_rpath}" "$ORIGIN/../../../torch/lib")
else()
  cmake_path(RELATIVE_PATH mneme_torch_folder BASE_DIRECTORY "${CMAKE_INSTALL_BINDIR}" OUTPUT_VARIABLE mneme_install_rpath)
  set(mneme_install_rpath "$ORIGIN/${mneme_install_rpath}")
endif()

# mneme_install_program(TARGET): into bin/, with a run path to the installation's LibTorch, after all other files.
function(mneme_install_program target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${mneme_install_rpath}")
  if(MNEME_INSTALL_TORCH STREQUAL "package")
    # A run path of the old kind holds for the libraries of the distribution too, whose own names no folder.
    target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
    install(CODE "set(mneme_program \"$<TARGET_FILE:${target}>\")
set(mneme_library_folder \"${mneme_library_folder}\")" COMPONENT runtime)
    install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/InstallLibraries.cmake" COMPONENT runtime)
  endif()
  set_property(GLOBAL APPEND PROPERTY mneme_installed_programs ${target})
endfunction()

# mneme_install_report(TARGET): into bin/, in a component of its own. In a wheel it finds the libraries that are copied for mneme.
function(mneme_install_report target)
  if(MNEME_INSTALL_TORCH STREQUAL "package")
    list(GET mneme_install_rpath 0 mneme_libraries)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${mneme_libraries}")
    target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
  endif()
  install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT report)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/mneme-report" COMPONENT report)
endfunction()

# mneme_finish_installation(): the programs, and the lists of what was installed. Once, after everything else: an
# installation that stops half way has no program, or no list.
function(mneme_finish_installation)
  get_property(programs GLOBAL PROPERTY mneme_installed_programs)
  if(programs)
    install(TARGETS ${programs} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
  endif()
  mneme_install_list(end runtime "${mneme_private_folder}")
  mneme_install_list(end sdk "${CMAKE_INSTALL_DATADIR}/mneme-sdk")
endfunction()

# mneme_install_terminal_files(FOLDER): shell completion and the manual pages, which the build has made there.
function(mneme_install_terminal_files folder)
  install(FILES "${folder}/mneme" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT runtime)
  install(FILES "${folder}/_mneme" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT runtime)
  install(FILES "${folder}/mneme.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
  install(FILES "${folder}/mneme-report.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT report)
endfunction()

# mneme_install_plugin(TARGET [FOLDER]): the library, the name map beside it if it has one, and the pages of its folder of
# plugins/, which has the plugin's name unless another one is given.
function(mneme_install_plugin target)
  set(folder ${target})
  if(ARGC GREATER 1)
    set(folder ${ARGV1})
  endif()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/plugins/${folder}/" DESTINATION "${mneme_doc_folder}/plugins/${folder}"
    COMPONENT runtime OPTIONAL FILES_MATCHING PATTERN "*.md" PATTERN kernels EXCLUDE)
  install(TARGETS ${target} LIBRARY DESTINATION "${mneme_plugin_folder}" COMPONENT runtime)
  install(FILES "$<TARGET_FILE_DIR:${target}>/${target}.names.toml"
    DESTINATION "${mneme_plugin_folder}" COMPONENT runtime OPTIONAL)
endfunction()

if(MNEME_INSTALL_TORCH MATCHES "^copy")
  install(CODE "set(mneme_torch_root \"${mneme_torch_root}\")
set(mneme_torch_cuda_folders \"${mneme_torch_cuda_folders}\")
set(mneme_torch_folder \"${mneme_torch_folder}\")
set(mneme_licence_folder \"${mneme_doc_folder}/licences\")
set(mneme_with_cuda ${MNEME_INSTALL_TORCH})" COMPONENT runtime)
  install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/InstallTorch.cmake" COMPONENT runtime)
endif()

foreach(mneme_folder IN ITEMS configs)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${mneme_folder}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${mneme_folder}" DESTINATION "${mneme_config_folder}" COMPONENT runtime)
  endif()
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${mneme_doc_folder}" COMPONENT runtime)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE NOTICE THIRD_PARTY_NOTICES.md DESTINATION "${mneme_doc_folder}" COMPONENT runtime)
# What the pages point to: a link that leaves these folders is refused by tests/structure/doc_links.sh.
if(EXISTS "${PROJECT_SOURCE_DIR}/examples")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${mneme_doc_folder}" COMPONENT runtime)
  # Examples name ../configs, as they do in the checkout.
  cmake_path(RELATIVE_PATH mneme_config_folder BASE_DIRECTORY "${mneme_doc_folder}" OUTPUT_VARIABLE mneme_configs_of_doc)
  install(CODE "file(CREATE_LINK \"${mneme_configs_of_doc}/configs\"
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${mneme_doc_folder}/configs\" SYMBOLIC)" COMPONENT runtime)
endif()
