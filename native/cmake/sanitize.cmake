# OUTRIDER_SANITIZE lists sanitizers, as the compiler's option -fsanitize does. For tests: see
# scripts/sanitize.sh.
set(OUTRIDER_SANITIZE "" CACHE STRING "Build with these sanitizers, e.g. address,undefined")
if(OUTRIDER_SANITIZE)
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fsanitize=${OUTRIDER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${OUTRIDER_SANITIZE})
endif()
