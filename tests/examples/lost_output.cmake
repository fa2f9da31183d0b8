# A program whose output cannot be written ends with an error, and without one when it can.
#   cmake -D PROGRAM=... -D ARGUMENTS=a;b -P lost_output.cmake
foreach(to /dev/null /dev/full)
  execute_process(COMMAND sh -c "exec \"$0\" \"$@\" > ${to}" ${PROGRAM} ${ARGUMENTS} RESULT_VARIABLE code ERROR_VARIABLE why)
  if((to STREQUAL "/dev/null" AND NOT code EQUAL 0) OR (to STREQUAL "/dev/full" AND NOT code EQUAL 1))
    message(FATAL_ERROR "with its output in ${to} it ended with ${code}:\n${why}")
  endif()
endforeach()
