# mneme_add_vega(FILE)
#
# A rule that makes FILE: Vega, Vega-Lite and Vega-Embed as one script, which draws the figures of reports. PyPI's
# vl-convert-python has it; scripts/setup.sh installs that into .venv. The script is made once for each build folder.
# Without vl-convert-python FILE is empty, and pages have no figures. Sets MNEME_HAS_VEGA in the cache.
set(MNEME_VEGA "" CACHE STRING
  "The script of Vega, Vega-Lite and Vega-Embed: a file, OFF, or empty: made with .venv's vl-convert-python")

function(mneme_add_vega file)
  set(python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(script "${PROJECT_SOURCE_DIR}/cmake/vega_bundle.py")
  set(has_vega ON)
  file(GLOB package "${PROJECT_SOURCE_DIR}/.venv/lib/python3.*/site-packages/vl_convert")
  if(MNEME_VEGA STREQUAL "OFF" OR (NOT MNEME_VEGA AND (NOT EXISTS "${python}" OR NOT package)))
    set(has_vega OFF)
    if(NOT MNEME_VEGA STREQUAL "OFF")
      message(STATUS "Vega-Lite: .venv has no vl-convert-python, so pages will have no figures. Run "
                     "scripts/setup.sh and configure again, or name the script with -DMNEME_VEGA=FILE.")
    endif()
    file(CONFIGURE OUTPUT "${file}" CONTENT "")  # untouched when it is empty already
  elseif(MNEME_VEGA)
    if(NOT EXISTS "${MNEME_VEGA}" OR IS_DIRECTORY "${MNEME_VEGA}")
      message(FATAL_ERROR "MNEME_VEGA is '${MNEME_VEGA}', which is no file; expected a script with Vega, Vega-Lite and "
                          "Vega-Embed, OFF, or no value.")
    endif()
    configure_file("${MNEME_VEGA}" "${file}" COPYONLY)
  else()
    if(EXISTS "${file}")  # an empty one, of a configuration without vl-convert-python, is made again
      file(SIZE "${file}" size)
      if(size EQUAL 0)
        file(REMOVE "${file}")
      endif()
    endif()
    add_custom_command(OUTPUT "${file}"
      COMMAND "${python}" "${script}" "${file}"
      DEPENDS "${script}"
      COMMENT "Making the script that draws the figures of reports" VERBATIM)
  endif()
  set(MNEME_HAS_VEGA ${has_vega} CACHE INTERNAL "Whether pages of reports have figures")
endfunction()
