# Compiler options, ccache, and how a floor is declared.

find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/compile ${TROUPE_CCACHE})
endif()
# Two thirds of a small file's compile time were its includes: each floor precompiles what nearly
# all of its files include (cmake/pch).
set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)
set(TROUPE_PCH_DIR ${CMAKE_CURRENT_LIST_DIR}/pch)

set(TROUPE_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees these in std::string's operator+ and in absl::InlinedVector where there is nothing,
  # in reports of a hundred lines.
  list(APPEND TROUPE_WARNINGS -Wno-restrict -Wno-stringop-overflow -Wno-uninitialized -Wno-maybe-uninitialized -Wno-array-bounds)
endif()
# GCC looks through its memory for what it no longer needs, which takes a tenth of the time of a file
# here. It need not where each processor has 3 GB: the largest batch takes 1.4 GB without that.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR share_mb "${memory_mb} / ${processors}")
  if(share_mb GREATER 3000)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-expand=300> $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
  endif()
endif()
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers to build everything with, as for -fsanitize (address,undefined or thread)")
if(TROUPE_SANITIZE)
  add_compile_options(-fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer -g1)
  if(TROUPE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
endif()

# For programs that read options and build graphs: the optimiser took half of their compilation, and
# they spend their time in the library.
set(TROUPE_LIGHT_OPTIMISATION $<$<NOT:$<CONFIG:Debug>>:-O1>)

option(TROUPE_BATCHES "Compile the files of a room in batches: less work in all, more after a change of one file" ON)

# troupe_batches(target SIZE FILES...): files of one folder are compiled up to SIZE at a time, as one
# translation unit. What they instantiate of the headers' templates, half of the compilation of an
# actor's file, is so made once. Names in the unnamed namespaces of a folder must differ therefore.
function(troupe_batches target size)
  if(NOT TROUPE_BATCHES)
    return()
  endif()
  set(files ${ARGN})
  list(SORT files)
  foreach(file ${files})
    get_filename_component(room ${file} ABSOLUTE)
    get_filename_component(room ${room} DIRECTORY)
    file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR} ${room})
    string(MAKE_C_IDENTIFIER "${room}" room)
    if(NOT DEFINED count_${room})
      set(count_${room} 0)
    endif()
    math(EXPR batch "${count_${room}} / ${size}")
    math(EXPR count_${room} "${count_${room}} + 1")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${room}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# troupe_link_quickly(): the programs of this folder and of those below are linked by gold where it is
# there, in a third of the time. The library, which others ship, is left to the compiler's choice.
function(troupe_link_quickly)
  find_program(TROUPE_GOLD ld.gold)
  if(TROUPE_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TROUPE_SANITIZE)
    add_link_options(-fuse-ld=gold)
  endif()
endfunction()

# What include/troupe/export.h marks is seen outside the library, and nothing else.
function(troupe_hide_names target)
  # With clang every name is shown: there a namespace's visibility does not hold for what another
  # block of the namespace defines, and the library would hide most of its functions.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()

# troupe_floor(name FILES... LIBS ... [PCH NAME] [BATCH N [ALONE REGEX]] [SHOWN]): an object
# library that becomes part of libtroupe; NAME is a header of cmake/pch, N a size for troupe_batches,
# without the files whose path in the project matches REGEX. SHOWN: all its names are seen outside
# the library.
function(troupe_floor name)
  cmake_parse_arguments(ARG "SHOWN" "PCH;BATCH;ALONE" "FILES;LIBS" ${ARGN})
  if(ARG_FILES)
    add_library(${name} OBJECT ${ARG_FILES})
    target_include_directories(${name} PUBLIC ${TROUPE_INCLUDES})
    target_compile_options(${name} PRIVATE ${TROUPE_WARNINGS})
    target_link_libraries(${name} PUBLIC ${ARG_LIBS})
    if(NOT ARG_SHOWN)
      troupe_hide_names(${name})
    endif()
    if(ARG_BATCH)
      set(batched)
      foreach(file ${ARG_FILES})
        get_filename_component(path ${file} ABSOLUTE)
        file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
        if(NOT ARG_ALONE OR NOT path MATCHES "${ARG_ALONE}")
          list(APPEND batched ${file})
        endif()
      endforeach()
      troupe_batches(${name} ${ARG_BATCH} ${batched})
    endif()
    if(ARG_PCH)
      target_precompile_headers(${name} PRIVATE ${TROUPE_PCH_DIR}/${ARG_PCH}.h)
    endif()
  else()
    add_library(${name} INTERFACE)
  endif()
endfunction()
