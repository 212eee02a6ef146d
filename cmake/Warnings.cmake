# Warnings for our own code; targets link mneme_warnings privately. Third-party headers are SYSTEM.
add_library(mneme_warnings INTERFACE)
target_compile_options(mneme_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wconversion;-Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(MNEME_WERROR)
  target_compile_options(mneme_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
endif()
