# Compiler options, ccache, and how a floor is declared.

find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TROUPE_CCACHE})
endif()

set(TROUPE_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers to build everything with, as for -fsanitize (address,undefined or thread)")
if(TROUPE_SANITIZE)
  add_compile_options(-fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer -g1)
  if(TROUPE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_floor(name FILES... LIBS ...): an object library that becomes part of libtroupe.
function(troupe_floor name)
  cmake_parse_arguments(ARG "" "" "FILES;LIBS" ${ARGN})
  if(ARG_FILES)
    add_library(${name} OBJECT ${ARG_FILES})
    target_include_directories(${name} PUBLIC ${TROUPE_INC} ${TROUPE_GEN})
    target_compile_options(${name} PRIVATE ${TROUPE_WARNINGS})
    target_link_libraries(${name} PUBLIC ${ARG_LIBS})
  else()
    add_library(${name} INTERFACE)
  endif()
endfunction()
