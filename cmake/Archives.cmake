# The program carries its libraries, so that it starts on a machine that has none of them: archives come first.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(OPENSSL_USE_STATIC_LIBS ON)

# lockstep_archive(NAME HEADERS): of these libraries Debian has headers and shared libraries alone. cmake/archives/NAME.cpp makes the
# archive of the headers, which target HEADERS tells how to use.
function(lockstep_archive name headers)
  add_library(archive_${name} STATIC ${PROJECT_SOURCE_DIR}/cmake/archives/${name}.cpp)
  target_compile_definitions(archive_${name} PUBLIC $<TARGET_PROPERTY:${headers},INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(archive_${name} PUBLIC $<TARGET_PROPERTY:${headers},INTERFACE_COMPILE_OPTIONS>)
  target_include_directories(archive_${name} SYSTEM PUBLIC $<TARGET_PROPERTY:${headers},INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()
