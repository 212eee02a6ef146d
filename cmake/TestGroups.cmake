# What ctest includes for a program of mneme_add_test(... TORCH): enters its tests, asked of the program itself.
#
# Every suite is one entry, called like the suite; a suite of more than `most` tests is several, "Suite 1/3". Loading
# LibTorch takes a quarter of a second of processor time, which a process for every test would spend on 1,300 tests. A
# single test runs with PROGRAM --gtest_filter=Suite.Test.
#
#   program, label, timeout, none_ran, all_skipped   set by the file that includes this one (tests/CMakeLists.txt)
set(most 12)

if(NOT EXISTS "${program}")
  get_filename_component(name "${program}" NAME)
  add_test("${name}_NOT_BUILT" "${name}_NOT_BUILT")
  return()
endif()
execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE listed ERROR_VARIABLE message RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${program} --gtest_list_tests: ${result}\n${message}")
endif()

# Enters `tests` of `suite` as NAME.
macro(enter name tests)
  string(REPLACE ";" ":${suite}." filter "${suite}.${tests}")
  add_test("${name}" "${program}" "--gtest_filter=${filter}")
  set_tests_properties("${name}" PROPERTIES LABELS "${label}" TIMEOUT "${timeout}" ENVIRONMENT OMP_NUM_THREADS=1
    FAIL_REGULAR_EXPRESSION "${none_ran}" SKIP_REGULAR_EXPRESSION "${all_skipped}")
endmacro()

macro(enter_suite)
  list(LENGTH tests count)
  if(count GREATER 0 AND NOT count GREATER most)
    enter("${suite}" "${tests}")
  elseif(count GREATER most)
    math(EXPR parts "(${count} + ${most} - 1) / ${most}")
    foreach(part RANGE 1 ${parts})
      math(EXPR begin "(${part} - 1) * ${most}")
      list(SUBLIST tests ${begin} ${most} part_tests)
      enter("${suite} ${part}/${parts}" "${part_tests}")
    endforeach()
  endif()
endmacro()

# "Suite." and, indented, "Test"; behind each a comment with the parameter may stand, in any characters.
string(REGEX REPLACE "[^\n]*# TypeParam[^\n]*" "" listed "${listed}")
string(REGEX REPLACE "  #[^\n]*" "" listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
set(suite "")
set(tests "")
foreach(line IN LISTS listed)
  if(line MATCHES "^  (.+)$")
    list(APPEND tests "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^([^ ]+)\\.$")
    enter_suite()
    set(suite "${CMAKE_MATCH_1}")
    set(tests "")
  endif()
endforeach()
enter_suite()
