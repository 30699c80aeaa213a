/* Where the tensors of a weight file lie, read from its first bytes: what the chunker aligns its cuts
 * to and what the encoder takes its number width from. Works on a growing prefix, so a server can ask
 * while a stream still arrives. Values; not thread-safe. */
#pragma once

#include "base/error.h"

typedef struct {
  guint64 offset_bytes; /* from the start of the file */
  guint64 size_bytes;   /* > 0 */
  guint8 unit_bytes;    /* 1, 2, 4 or 8: the width of one number; 0 when packed or unknown */
} TensorSpan;

typedef struct {
  guint64 header_bytes; /* where tensor data begins */
  GArray *spans;        /* of TensorSpan, ascending, without overlap; may be empty */
} TensorLayout;

typedef enum {
  TENSOR_LAYOUT_NONE,      /* not a file whose tensors can be found: cut it blindly */
  TENSOR_LAYOUT_NEED_MORE, /* `out_needed_bytes` says how long a prefix to come back with */
  TENSOR_LAYOUT_FOUND,
} TensorLayoutVerdict;

/* Looks at the first `size` bytes of a file. Deterministic in the file's bytes alone: the verdict for
 * a prefix that suffices is the same for every longer one. A damaged or oversized header
 * (above `limit_bytes`) is NONE, never an error. `out_layout` is set on FOUND only.
 * A header that is complete at exactly the end of the file counts too. */
TensorLayoutVerdict tensor_layout_probe (const guint8 *prefix, gsize size, gsize limit_bytes,
                                         TensorLayout **out_layout, gsize *out_needed_bytes);
void tensor_layout_free (TensorLayout *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TensorLayout, tensor_layout_free)
