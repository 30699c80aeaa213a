/* The address of an upload session: a `Location` header may be relative or absolute and may carry its own path
 * and query, which must be kept (formats-oci-modelpack.md 4.1). Private to registry/. Pure. */
#pragma once

#include "base/error.h"

/* Absolute form of `location` as answered to a request for `request_url`. DATA_LOSS never; FAILED_PRECONDITION when
 * it is missing, no http or https URL, or leads from https to http. Caller frees. */
char *upload_location_resolve (const char *request_url, const char *location, GError **error);
/* `location` with a path segment added before its query: ".../known?state=x". Caller frees. */
char *upload_location_below (const char *location, const char *segment);
