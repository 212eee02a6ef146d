# Run by `cmake --install` before a component's first file and after its last one. An installation is complete when its
# list is there: installed.txt in lib/mneme (component runtime) or share/mneme-sdk (component sdk), whose lines after the
# first are the size and the path of each file, seen from the list's folder. `mneme doctor` compares them.
#   mneme_list_step    begin: remove the list; end: write it
#   mneme_list_folder  of the list, relative to the prefix
#   mneme_list_sdk     whether the component is sdk
#   mneme_list_sdk_folders  a pattern of the SDK's folders, relative to the prefix
#   mneme_list_head    the first line

set(mneme_list "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${mneme_list_folder}/installed.txt")
if(mneme_list_step STREQUAL "begin")
  file(REMOVE "${mneme_list}")
else()
  set(mneme_list_text "${mneme_list_head}\n")
  foreach(mneme_file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
    cmake_path(RELATIVE_PATH mneme_file BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE mneme_in_prefix)
    set(mneme_is_sdk FALSE)
    if(mneme_in_prefix MATCHES "${mneme_list_sdk_folders}")
      set(mneme_is_sdk TRUE)
    endif()
    if((mneme_is_sdk AND mneme_list_sdk) OR NOT (mneme_is_sdk OR mneme_list_sdk))
      cmake_path(RELATIVE_PATH mneme_file BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${mneme_list_folder}"
        OUTPUT_VARIABLE mneme_relative)
      file(SIZE "$ENV{DESTDIR}${mneme_file}" mneme_size)
      string(APPEND mneme_list_text "${mneme_size} ${mneme_relative}\n")
    endif()
  endforeach()
  file(WRITE "${mneme_list}.new" "${mneme_list_text}")
  file(RENAME "${mneme_list}.new" "${mneme_list}")
endif()
