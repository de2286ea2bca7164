# cpack runs this in the staging directory before it packs: it adds the files that Debian's policy requires. Times are
# SOURCE_DATE_EPOCH if it is set, so that a release is reproducible.
find_program(GZIP gzip REQUIRED)

# The changelog of the packages refers to that of the project.
string(TIMESTAMP _date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(_changelog "msimage (${MSIMAGE_REVISION}) unstable; urgency=medium\n\n  * Release; see changelog.gz for the changes.\n\n -- \
${MSIMAGE_MAINTAINER}  ${_date}\n")

# compress(FILE): replace FILE by a reproducible FILE.gz.
function(compress file)
  execute_process(COMMAND ${GZIP} -9 -n -f ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(_component ${CPACK_COMPONENTS_ALL})
  set(_root ${CPACK_TEMPORARY_DIRECTORY}/${_component})
  set(_package ${_component})
  foreach(_pair ${MSIMAGE_PACKAGES})
    string(REGEX REPLACE "^${_component}=" "" _name ${_pair})
    if(NOT _name STREQUAL _pair)
      set(_package ${_name})
    endif()
  endforeach()

  file(GLOB _pages ${_root}/usr/share/man/man1/*.1)
  foreach(_page ${_pages})
    compress(${_page})
  endforeach()
  # Debian's zsh reads completions of packages from vendor-completions.
  if(EXISTS ${_root}/usr/share/zsh/site-functions)
    file(RENAME ${_root}/usr/share/zsh/site-functions ${_root}/usr/share/zsh/vendor-completions)
  endif()

  set(_doc ${_root}/usr/share/doc/${_package})
  file(MAKE_DIRECTORY ${_doc})
  file(COPY_FILE ${MSIMAGE_SOURCE}/packaging/copyright ${_doc}/copyright)
  file(COPY_FILE ${MSIMAGE_SOURCE}/CHANGELOG.md ${_doc}/changelog)
  file(WRITE ${_doc}/changelog.Debian "${_changelog}")
  file(CHMOD ${_doc}/copyright ${_doc}/changelog ${_doc}/changelog.Debian
       PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  compress(${_doc}/changelog)
  compress(${_doc}/changelog.Debian)
  # Overrides of lintian, each with its reason.
  set(_lines "# These packages are made by the project, without a Debian bug.\ninitial-upload-closes-no-bugs\n")
  if(MSIMAGE_MAINTAINER MATCHES "@localhost>")
    string(APPEND _lines "# Packages for this machine have no maintainer; set DEBFULLNAME and DEBEMAIL to distribute packages.\n"
           "bogus-mail-host\nbogus-mail-host-in-debian-changelog\n")
  endif()
  if(_component MATCHES "^lib" AND NOT _component MATCHES "-dev$")
    string(APPEND _lines "# cpack also writes scripts that call ldconfig; running it twice is harmless.\nmaintscript-calls-ldconfig\n")
  endif()
  set(_overrides ${_root}/usr/share/lintian/overrides)
  file(MAKE_DIRECTORY ${_overrides})
  file(WRITE ${_overrides}/${_package} "${_lines}")
  file(CHMOD ${_overrides}/${_package} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

  file(GLOB_RECURSE _binaries ${_root}/usr/bin/* ${_root}/usr/lib/*.so ${_root}/usr/lib/*.so.*.*.* ${_root}/usr/lib/*.a)
  foreach(_binary ${_binaries})
    if(NOT IS_SYMLINK ${_binary})
      execute_process(COMMAND strip --strip-debug --remove-section=.comment --remove-section=.note -D ${_binary}
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
endforeach()
