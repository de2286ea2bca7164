# Man pages and completions of the programs other than msimage, made from their -help. msimage_manual(TARGET) writes man/TARGET.1
# from man/TARGET.1.in, where @OPTIONS@ and @NOTES@ are the options of the help and the text after them. It also writes
# completions/TARGET for bash and completions/_TARGET for zsh, which complete options and files.
#
# After the program is built, this file runs as a script:
# cmake -DPROGRAM=.. -DTARGET=.. -DTEMPLATE=.. -DPAGE=.. -DCOMPLETIONS=.. -DVERSION=.. -P
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND ${PROGRAM} -help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\n  -[a-z-]+" names "${help}")
  list(TRANSFORM names REPLACE "[\n ]+" "")
  string(REPLACE ";" " " names "${names}")
  file(WRITE ${COMPLETIONS}/${TARGET}
       "# bash completion of ${TARGET}\ncomplete -o default -W '${names}' ${TARGET}\n")
  file(WRITE ${COMPLETIONS}/_${TARGET}
       "#compdef ${TARGET}\nif [[ $PREFIX == -* ]]; then compadd -- ${names}; else _files; fi\n")
  # troff needs a backslash before a backslash and a dash.
  string(REPLACE "\\" "\\e" help "${help}")
  string(REPLACE "-" "\\-" help "${help}")
  string(FIND "${help}" "\n  \\-" start)
  string(SUBSTRING "${help}" ${start} -1 help)
  string(FIND "${help}" "\n\n" end)
  string(SUBSTRING "${help}" 0 ${end} OPTIONS)
  string(SUBSTRING "${help}" ${end} -1 NOTES)
  # The text of an option begins on the same line after two blanks, or on the next line; more lines may follow.
  string(REGEX REPLACE "\n  (\\\\-[^\n]*[^ \n])  +([^ \n][^\n]*)" "\n.TP\n.B \\1\n\\2" OPTIONS "${OPTIONS}")
  string(REGEX REPLACE "\n  (\\\\-[^\n]*[^ \n]) *\n       +([^\n]+)" "\n.TP\n.B \\1\n\\2" OPTIONS "${OPTIONS}")
  string(REGEX REPLACE "\n  (\\\\-[^ \n]+( [A-Z][^ \n]*)?) +([^\n]+)" "\n.TP\n.B \\1\n\\3" OPTIONS "${OPTIONS}")
  string(REGEX REPLACE "\n       +([^\n]+)" " \\1" OPTIONS "${OPTIONS}")
  string(REGEX REPLACE "^\n" "" OPTIONS "${OPTIONS}")
  # Indented lines are commands.
  string(REGEX REPLACE "((\n  [^\n]*)+)" "\n.EX\\1\n.EE" NOTES "${NOTES}")
  string(REGEX REPLACE "^\n+" "" NOTES "${NOTES}")
  string(REGEX REPLACE "\n\n+" "\n.PP\n" NOTES "${NOTES}")
  string(REGEX REPLACE "\n$" "" NOTES "${NOTES}")
  configure_file(${TEMPLATE} ${PAGE} @ONLY)
  return()
endif()

include(GNUInstallDirs)
set(MSIMAGE_MANUAL_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(msimage_manual target)
  set(template ${PROJECT_SOURCE_DIR}/man/${target}.1.in)
  set(page ${CMAKE_BINARY_DIR}/man/${target}.1)
  set(completions ${CMAKE_BINARY_DIR}/completions)
  add_custom_command(OUTPUT ${page} ${completions}/${target} ${completions}/_${target}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DTARGET=${target} -DTEMPLATE=${template} -DPAGE=${page}
            -DCOMPLETIONS=${completions} -DVERSION=${PROJECT_VERSION} -P ${MSIMAGE_MANUAL_SCRIPT}
    DEPENDS ${target} ${template} ${MSIMAGE_MANUAL_SCRIPT}
    COMMENT "Writing the man page and completions of ${target}" VERBATIM)
  add_custom_target(manual-${target} ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${completions}/${target} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions}/_${target} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endfunction()
