# What `cmake --install` and `cpack` make: a tree that works wherever it lies, without this checkout.
#
#   bin/mneme                      the program; its run path is relative
#   lib/mneme/plugins              the memories, found by the program from its own place
#   lib/mneme/torch/lib            the libraries of LibTorch that the program needs
#   share/mneme/configs            experiments and memories
#   share/bash-completion/completions/mneme, share/zsh/site-functions/_mneme, share/man/man1/mneme.1
#                                  where the shells and man(1) look
#   share/doc/mneme                README, docs, licence, and the notices of what is copied
#   include/mneme, include/mneme_kernels, share/mneme-sdk
#                                  the SDK
#
# Components: runtime (all but the SDK), sdk.

set(MNEME_INSTALL_TORCH copy CACHE STRING
  "LibTorch in an installation: copy (what a CPU needs, into the prefix), copy-cuda (its CUDA libraries too), link (left where it is)")
set_property(CACHE MNEME_INSTALL_TORCH PROPERTY STRINGS copy copy-cuda link)
if(NOT MNEME_INSTALL_TORCH MATCHES "^(copy|copy-cuda|link)$")
  message(FATAL_ERROR "MNEME_INSTALL_TORCH is '${MNEME_INSTALL_TORCH}'; expected copy, copy-cuda or link.")
endif()

set(mneme_private_folder "${CMAKE_INSTALL_LIBDIR}/mneme")
set(mneme_plugin_folder "${mneme_private_folder}/plugins")
# The folder torch/lib is LibTorch's own layout: its CUDA libraries look for others in ../../nvidia.
set(mneme_torch_folder "${mneme_private_folder}/torch/lib")
set(mneme_config_folder "${CMAKE_INSTALL_DATADIR}/mneme")
set(mneme_doc_folder "${CMAKE_INSTALL_DATADIR}/doc/mneme")

# From the program's folder to its plugins: what the program is compiled with.
cmake_path(RELATIVE_PATH mneme_plugin_folder BASE_DIRECTORY "${CMAKE_INSTALL_BINDIR}" OUTPUT_VARIABLE MNEME_INSTALLED_PLUGINS)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)

# The run path of programs that link LibTorch.
if(MNEME_INSTALL_TORCH STREQUAL "link")
  set(mneme_install_rpath "${mneme_torch_root}/lib" ${mneme_torch_toolkit_folders})
else()
  cmake_path(RELATIVE_PATH mneme_torch_folder BASE_DIRECTORY "${CMAKE_INSTALL_BINDIR}" OUTPUT_VARIABLE mneme_install_rpath)
  set(mneme_install_rpath "$ORIGIN/${mneme_install_rpath}")
endif()

# mneme_install_program(TARGET): into bin/, with a run path to the installation's LibTorch.
function(mneme_install_program target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${mneme_install_rpath}")
  install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endfunction()

# mneme_install_terminal_files(FOLDER): shell completion and the manual page, which the build has made there.
function(mneme_install_terminal_files folder)
  install(FILES "${folder}/mneme" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT runtime)
  install(FILES "${folder}/_mneme" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT runtime)
  install(FILES "${folder}/mneme.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
endfunction()

# mneme_install_plugin(TARGET): the library, and the name map beside it if it has one.
function(mneme_install_plugin target)
  install(TARGETS ${target} LIBRARY DESTINATION "${mneme_plugin_folder}" COMPONENT runtime)
  install(FILES "$<TARGET_FILE_DIR:${target}>/${target}.names.toml"
    DESTINATION "${mneme_plugin_folder}" COMPONENT runtime OPTIONAL)
endfunction()

if(NOT MNEME_INSTALL_TORCH STREQUAL "link")
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
install(FILES README.md LICENSE NOTICE THIRD_PARTY_NOTICES.md DESTINATION "${mneme_doc_folder}" COMPONENT runtime)
