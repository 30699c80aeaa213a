/* The error of every parser here: the file itself is at fault, and the message says how. */
#pragma once

#include "base/error.h"

#define FORMAT_INVALID "FormatInvalid"
#define FORMAT_TOO_LARGE "FormatLimitExceeded"

/* Both return FALSE, as am_fail does. */
#define format_fail(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, FORMAT_INVALID, __VA_ARGS__)
#define format_fail_limit(error, ...) am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, FORMAT_TOO_LARGE, __VA_ARGS__)
