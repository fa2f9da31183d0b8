# Runs mnist twice and compares what it prints last: the same seed and number of threads give the
# same numbers.
#   cmake -D MNIST=... -D EXPERIMENT=E1 -D EXPECT=0.85 -P check.cmake
foreach(i 1 2)
  execute_process(COMMAND ${MNIST} --experiment ${EXPERIMENT} --steps 100 --seed 1 --threads 2 --expect ${EXPECT}
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "mnist ended with ${code}:\n${out}\n${err}")
  endif()
  if(NOT out MATCHES "(${EXPERIMENT}: 100 steps, test accuracy [^\n]*)")
    message(FATAL_ERROR "mnist does not say what it reached:\n${out}")
  endif()
  set(last${i} "${CMAKE_MATCH_1}")
endforeach()
if(NOT last1 STREQUAL last2)
  message(FATAL_ERROR "two runs with the same seed differ:\n${last1}\n${last2}")
endif()
message(STATUS "${last1}")
