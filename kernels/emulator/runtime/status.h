// How a CANN function of this library starts and ends.
#pragma once

#include "emulator.h"

namespace emu {

// A failure with a printf-like message. The message names the argument, the value and the limit.
Status error(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// True in a child forked after this process used a device: threads and locks did not come along.
bool forked_after_use();

// From now on a fork leaves an unusable child. Called when a device is first used.
void note_use();

// Finishes a CANN function: puts its name before the message, traces it, and reports it.
int finish(const char* function, Status status);

Status forked_child();

// End a function that does nothing else (not_emulated.cpp): as an error, or as CANN does when the
// driver lacks a feature.
int not_emulated(const char* function);
int not_in_driver(const char* function);

// The status of the exception being handled.
Status current_exception();

// The body of a CANN function, a callable that returns a Status.
template <typename Body>
int api(const char* function, Body&& body) {
  if (forked_after_use()) return finish(function, forked_child());
  try {
    return finish(function, body());
  } catch (...) {
    return finish(function, current_exception());
  }
}

// The same for functions that only release something. There is nothing to release in a forked
// child, and an error there would surface in destructors.
template <typename Body>
int release_api(const char* function, Body&& body) {
  return forked_after_use() ? ACL_SUCCESS : api(function, body);
}

// Status of a null pointer argument.
inline Status null_argument(const char* name) {
  return error(ACL_ERROR_RT_PARAM_INVALID, "%s is null", name);
}

}  // namespace emu
