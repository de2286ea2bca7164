# Measurement Sets: the casacore bindings, a library of their own, the reader and the writer.
add_library(casacore-c STATIC casacore_failure.cc casacore_types.cc casacore_files.cc casacore_table.cc casacore_column.cc
                              casacore_get.cc casacore_put.cc casacore_keyword.cc casacore_create.cc casacore_select.cc
                              casacore_direction.cc)
msimage_target(casacore-c)
target_link_libraries(casacore-c PRIVATE PkgConfig::CASACORE)
if(MSIMAGE_SANITIZE)
  # casacore's array headers bind a reference to a null allocator.
  target_compile_options(casacore-c PRIVATE -fno-sanitize=null)
endif()

add_library(msi_ms STATIC ms_reader.c ms_crew.c ms_block.c ms_metadata.c ms_rows.c ms_channels.c
                          ms_child.c ms_writer.c ms_writer_child.c ms_column.c ms_column_change.c ms_fill.c ms_mark.c)
msimage_target(msi_ms)
target_compile_definitions(msi_ms PRIVATE MSIMAGE_VERSION="${PROJECT_VERSION}")
target_link_libraries(msi_ms PUBLIC msi_core PRIVATE casacore-c m)
