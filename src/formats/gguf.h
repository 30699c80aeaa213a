/* The header of a GGUF file, versions 2 and 3: metadata and tensor table (formats-gguf.md, which follows
 * ggml's docs/gguf.md and src/gguf.cpp, with the limits of its section 7). Read as a stream: what is not
 * kept (token lists, long strings) is walked over, not stored. Used by the inspector, shard sets and
 * tensor_layout. Immutable once read; not tied to a thread. */
#pragma once

#include "base/reader.h"

#define GGUF_MAX_HEADER_BYTES (256 * 1024 * 1024)
#define GGUF_MAX_PAIRS 65536
#define GGUF_MAX_TENSORS 1000000
#define GGUF_MAX_STRING_BYTES (16 * 1024 * 1024)
#define GGUF_MAX_ARRAY (16 * 1024 * 1024)
#define GGUF_MAX_ALIGNMENT (1024 * 1024)
#define GGUF_KEPT_STRING_BYTES (1024 * 1024) /* longer strings are checked and forgotten */
#define GGUF_KEPT_ARRAY 1024                 /* likewise longer arrays */

typedef enum {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_N_VALUE_TYPES,
} GgufValueType;

typedef struct {
  const char *key;
  GgufValueType type; /* of the elements when it is an array */
  gboolean is_array;
  guint64 n;          /* elements; 1 for a scalar */
  GPtrArray *strings; /* of char *: kept strings (one for a scalar); NULL when not kept */
  GArray *integers;   /* of gint64; unsigned values beyond its range are kept as G_MAXINT64 */
  double number;      /* a scalar of a float type */
} GgufValue;

/* Shape and storage of a tensor type's blocks; ids are ggml's (ggml.h, enum ggml_type). */
typedef struct {
  const char *name; /* "Q4_K"; NULL for ids that are unknown or were removed */
  guint block;      /* elements */
  guint block_bytes;
  guint8 unit_bytes; /* width of one number, 0 when packed */
} GgufTensorType;

typedef struct {
  const char *name;
  gsize name_size;
  guint32 n_dims;
  guint32 type;
  guint64 dims[4]; /* fastest first */
  guint64 n_elements;
  guint64 offset_bytes; /* within the data */
  guint64 size_bytes;   /* 0 when the type is unknown, or nothing is in it */
} GgufTensor;

typedef struct {
  guint32 version;
  guint64 alignment;
  guint64 header_bytes;  /* where tensor data begins, padding included */
  guint64 end_bytes;     /* end of the last tensor, without padding; from the start of the file */
  guint n_unknown_types; /* tensors whose type is not known */
  GArray *values;        /* of GgufValue, ascending by key, no key twice */
  GArray *tensors;       /* of GgufTensor, ascending by offset */
  GStringChunk *strings;
} GgufHeader;

/* Checks the whole file: metadata, tensor table, and that all tensors lie inside the file, with less than
 * one alignment behind the last. Reads the header only. INVALID_ARGUMENT (FormatInvalid, LfsPointer,
 * PickleRejected) says what is wrong; RESOURCE_EXHAUSTED above a limit. Blocks as the reader does. */
GgufHeader *gguf_read (Ctx *ctx, Reader *reader, GError **error);
/* From a file's first bytes, without knowing its size. When they end too early the answer is NULL
 * without an error, and `*out_needed_bytes` says how long a prefix is needed at least; otherwise 0. */
GgufHeader *gguf_parse_prefix (const guint8 *prefix, gsize size, gsize *out_needed_bytes, GError **error);
void gguf_header_free (GgufHeader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GgufHeader, gguf_header_free)

/* A row for every id; unknown ones have no name and no size. */
const GgufTensorType *gguf_tensor_type (guint32 id);
/* Name of a `general.file_type` ("Q4_K_M"), the "guessed" flag ignored; NULL when unknown. */
const char *gguf_file_type_name (guint64 file_type);

const GgufValue *gguf_find (const GgufHeader *self, const char *key);
/* The key `{general.architecture}.{suffix}`. */
const GgufValue *gguf_find_arch (const GgufHeader *self, const char *suffix);
/* NULL when absent, of another type, or too long to be kept. */
const char *gguf_string (const GgufHeader *self, const char *key);
/* Any integer type, since writers differ; the largest of an array of per-layer values. FALSE when
 * absent, negative or of another type. `value` may be NULL. */
gboolean gguf_value_u64 (const GgufValue *value, guint64 *out_value);

typedef struct {
  guint64 no;    /* from 0 */
  guint64 count; /* 0 or 1: a file of its own */
  guint64 n_tensors_in_all;
} GgufSplit;

/* The `split.*` keys; zeros when absent. INVALID_ARGUMENT when they contradict themselves. */
gboolean gguf_split (const GgufHeader *self, GgufSplit *out_split, GError **error);
