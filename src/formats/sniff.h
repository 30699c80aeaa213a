/* What some bytes really are, by their first few hundred: users save web pages, Git LFS pointers and
 * error bodies under a model's name, and a file's name or Content-Type proves nothing
 * (pitfalls-sources.md 32, 87; formats-safetensors-diffusers.md 4). Pure. */
#pragma once

#include "base/error.h"

#define SNIFF_BYTES 512 /* as many of a file's first bytes as a verdict may need */

typedef enum {
  SNIFF_UNKNOWN,
  SNIFF_SAFETENSORS, /* a plausible header length, then an object */
  SNIFF_GGUF,
  SNIFF_OLD_GGML, /* GGML, ggjt, ggla, GGMF */
  SNIFF_LFS_POINTER,
  SNIFF_HTML,
  SNIFF_JSON,
  SNIFF_ZIP,
  SNIFF_GZIP,
  SNIFF_ZSTD,
  SNIFF_TAR,
  SNIFF_BZIP2,
  SNIFF_XZ,
  SNIFF_7Z,
  SNIFF_RAR,
  SNIFF_PICKLE,
  SNIFF_HDF5,
  SNIFF_ELF,
  SNIFF_PE,
} SniffKind;

SniffKind sniff (const guint8 *head, gsize size);
/* "a web page (HTML)", for messages. */
const char *sniff_describe (SniffKind kind);
/* FALSE with the fitting message when the head of a file that should be `wanted` shows that it is surely
 * something else; reasons LfsPointer, PickleRejected, FormatInvalid. TRUE when it may be right. */
gboolean sniff_expect (SniffKind wanted, const guint8 *head, gsize size, GError **error);
