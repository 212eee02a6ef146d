// C++ exceptions for plugin.c to let out of its entry point and of its init.
#include <stdexcept>

#include "mneme/sdk.h"

extern "C" {

void throw_error(void);
mneme_status throw_number(const mneme_host*, mneme_get_group_fn, mneme_error*);

void throw_error(void) { throw std::runtime_error("thrown on purpose"); }
mneme_status throw_number(const mneme_host*, mneme_get_group_fn, mneme_error*) { throw 7; }
}
