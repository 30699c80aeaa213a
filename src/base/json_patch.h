/* What changed between two JSON values, as a JSON patch (RFC 6902). Pure; values belong to one thread. */
#pragma once

#include "base/json.h"

/* The operations (add, remove, replace) that make `after` of `before`, in a document of its own that the caller frees; an
 * empty array when they are equal. Small where little changed: what stands alike in both is not in it, in lists too. Both
 * have at most JSON_MAX_DEPTH levels, and no object has two members of one name. */
yyjson_mut_doc *json_patch_between (yyjson_mut_val *before, yyjson_mut_val *after);
