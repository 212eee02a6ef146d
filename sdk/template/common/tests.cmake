# ctest --test-dir build: what mneme says of the plugin. Without the program there are no tests.
enable_testing()
find_program(MNEME mneme HINTS "${mneme-sdk_DIR}/../../../bin" DOC "The program mneme, for the tests")
if(NOT MNEME)
  message(STATUS "mneme was not found, so there are no tests: give -DMNEME=<path of the program>")
  return()
endif()

# Whatever the build's folder is called.
set(plugins "--set=memory.plugins=[\"${CMAKE_CURRENT_BINARY_DIR}\"]")

# Loaded by itself.
add_test(NAME describe COMMAND "${MNEME}" plugins describe "$<TARGET_FILE:my_memory>")

# What every memory has to hold: causality, lanes, resets, gradients, errors and more, in small models.
add_test(NAME validate COMMAND "${MNEME}" plugins validate "$<TARGET_FILE:my_memory>" --jobs 2)

# Two small segments, in a process with a time limit.
add_test(NAME try COMMAND "${MNEME}" plugins try experiment.toml --memory memory.toml "${plugins}")

# A short training beside one without a memory, and the report that compares them.
add_test(NAME forget_runs COMMAND "${CMAKE_COMMAND}" -E rm -rf "${CMAKE_CURRENT_BINARY_DIR}/compare")
add_test(NAME compare COMMAND "${MNEME}" compare experiment.toml --memory none.toml --memory memory.toml
  --run "${CMAKE_CURRENT_BINARY_DIR}/compare" --set train.steps=4 --set train.warmup=0 --samples 0 --threads 1 --quiet "${plugins}")
set_tests_properties(forget_runs PROPERTIES FIXTURES_SETUP no_runs)
set_tests_properties(compare PROPERTIES FIXTURES_REQUIRED no_runs)

set_tests_properties(describe validate try compare PROPERTIES WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" TIMEOUT 300)
