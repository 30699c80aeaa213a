/* YAML into the JSON documents the rest works on: kubeconfig files, objects a person wrote. Over libyaml. Thread-safe. */
#pragma once

#include "base/json.h"

/* The one document of `data` as JSON: mappings with text keys, sequences and scalars, the plain ones by YAML 1.2's core
 * schema (yaml.org/spec/1.2.2, 10.3). INVALID_ARGUMENT with line and column for what is no such document: anchors with
 * aliases, a key twice, several documents, more than JSON_MAX_DEPTH levels; RESOURCE_EXHAUSTED above `limit_bytes`.
 * An empty document is null. Free with yyjson_doc_free. */
yyjson_doc *yaml_parse (gconstpointer data, gsize size, gsize limit_bytes, GError **error);
