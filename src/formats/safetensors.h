/* The header of a safetensors file, checked strictly: formats-safetensors-diffusers.md 1, which follows
 * the reference (safetensors repository, README "Format" and the Rust core) and refuses what it merely
 * tolerates (duplicate keys, unknown members). Used by the inspector, shard sets and tensor_layout.
 * Immutable once read; not tied to a thread. */
#pragma once

#include "base/reader.h"

#define SAFETENSORS_MAX_HEADER_BYTES (100 * 1000 * 1000) /* the reference's limit */
#define SAFETENSORS_MAX_TENSORS 1000000

typedef enum {
  SAFETENSORS_F4,
  SAFETENSORS_F6_E2M3,
  SAFETENSORS_F6_E3M2,
  SAFETENSORS_BOOL,
  SAFETENSORS_U8,
  SAFETENSORS_I8,
  SAFETENSORS_F8_E4M3,
  SAFETENSORS_F8_E5M2,
  SAFETENSORS_F8_E8M0,
  SAFETENSORS_F8_E4M3FNUZ,
  SAFETENSORS_F8_E5M2FNUZ,
  SAFETENSORS_I16,
  SAFETENSORS_U16,
  SAFETENSORS_F16,
  SAFETENSORS_BF16,
  SAFETENSORS_I32,
  SAFETENSORS_U32,
  SAFETENSORS_F32,
  SAFETENSORS_I64,
  SAFETENSORS_U64,
  SAFETENSORS_F64,
  SAFETENSORS_C64,
  SAFETENSORS_N_DTYPES,
} SafetensorsDtype;

typedef struct {
  const char *name;      /* "BF16" */
  guint bits;            /* of one element */
  const char *precision; /* ModelPack's word ("bfloat16"), NULL when it has none */
  gboolean is_float;
} SafetensorsDtypeInfo;

const SafetensorsDtypeInfo *safetensors_dtype_info (SafetensorsDtype dtype);

typedef struct {
  const char *name; /* opaque: any text, even empty or with NUL inside; never a path */
  gsize name_size;
  const guint64 *dims;
  guint32 n_dims; /* 0: a scalar, one element */
  SafetensorsDtype dtype;
  guint64 n_elements;
  guint64 begin_bytes, end_bytes; /* within the data behind the header */
} SafetensorsTensor;

typedef struct {
  const char *key, *value;
} SafetensorsMetadata;

typedef struct {
  guint64 header_bytes;   /* where tensor data begins: 8 + N */
  guint64 data_bytes;     /* tensors cover exactly this much */
  GArray *tensors;        /* of SafetensorsTensor, ascending by offset, no hole, no overlap */
  GPtrArray *by_name;     /* the same, as SafetensorsTensor *, ascending by name; nothing twice */
  GArray *metadata;       /* of SafetensorsMetadata, in file order; often empty */
  gboolean leading_space; /* legal for the reference reader, but no writer does it */
  GStringChunk *strings;
  GArray *dims;
} SafetensorsHeader;

/* Checks the whole file: header, then that its size is exactly what the header says. Reads the first
 * 8 + N bytes only. INVALID_ARGUMENT (FormatInvalid, LfsPointer, PickleRejected) says what is wrong;
 * RESOURCE_EXHAUSTED above the limits; the reader's errors. Blocks as the reader does. */
SafetensorsHeader *safetensors_read (Ctx *ctx, Reader *reader, GError **error);
/* The header's JSON alone (N bytes, behind the length). Pure. */
SafetensorsHeader *safetensors_parse (const char *json, gsize size, GError **error);
void safetensors_header_free (SafetensorsHeader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SafetensorsHeader, safetensors_header_free)

/* NULL when there is none of that name. */
const SafetensorsTensor *safetensors_find (const SafetensorsHeader *self, const char *name, gsize name_size);
const char *safetensors_metadata (const SafetensorsHeader *self, const char *key);
