#include "formats/sniff.h"

#include <string.h>

#include "formats/format_error.h"

typedef struct {
  gsize offset;
  const char *bytes;
  gsize size;
  SniffKind kind;
} Magic;

#define MAGIC(offset, bytes, kind)        \
  {                                       \
    offset, bytes, sizeof bytes - 1, kind \
  }

static const Magic magics[] = {
  MAGIC (0, "GGUF", SNIFF_GGUF),
  MAGIC (0, "GGML", SNIFF_OLD_GGML),
  MAGIC (0, "lmgg", SNIFF_OLD_GGML), /* the same words, stored little-endian */
  MAGIC (0, "ggjt", SNIFF_OLD_GGML),
  MAGIC (0, "tjgg", SNIFF_OLD_GGML),
  MAGIC (0, "ggla", SNIFF_OLD_GGML),
  MAGIC (0, "algg", SNIFF_OLD_GGML),
  MAGIC (0, "GGMF", SNIFF_OLD_GGML),
  MAGIC (0, "fmgg", SNIFF_OLD_GGML),
  MAGIC (0, "version https://git-lfs.github.com/spec/", SNIFF_LFS_POINTER),
  MAGIC (0, "version https://hawser.github.com/spec/", SNIFF_LFS_POINTER),
  MAGIC (0, "PK\3\4", SNIFF_ZIP),
  MAGIC (0, "PK\5\6", SNIFF_ZIP), /* an empty one */
  MAGIC (0, "\x1f\x8b", SNIFF_GZIP),
  MAGIC (0, "\x28\xb5\x2f\xfd", SNIFF_ZSTD),
  MAGIC (257, "ustar", SNIFF_TAR),
  MAGIC (0, "BZh", SNIFF_BZIP2),
  MAGIC (0,
         "\xfd"
         "7zXZ",
         SNIFF_XZ),
  MAGIC (0, "7z\xbc\xaf\x27\x1c", SNIFF_7Z),
  MAGIC (0, "Rar!\x1a\x07", SNIFF_RAR),
  MAGIC (0, "\x80\2", SNIFF_PICKLE), /* protocols 2 to 5 */
  MAGIC (0, "\x80\3", SNIFF_PICKLE),
  MAGIC (0, "\x80\4", SNIFF_PICKLE),
  MAGIC (0, "\x80\5", SNIFF_PICKLE),
  MAGIC (0, "\x89HDF\r\n", SNIFF_HDF5),
  MAGIC (0,
         "\x7f"
         "ELF",
         SNIFF_ELF),
  MAGIC (0, "MZ", SNIFF_PE),
};

static const char *const descriptions[] = {
  [SNIFF_UNKNOWN] = "unknown data",
  [SNIFF_SAFETENSORS] = "a safetensors file",
  [SNIFF_GGUF] = "a GGUF file",
  [SNIFF_OLD_GGML] = "a file of GGUF's obsolete predecessors (GGML, GGJT)",
  [SNIFF_LFS_POINTER] = "a Git LFS pointer",
  [SNIFF_HTML] = "a web page (HTML)",
  [SNIFF_JSON] = "JSON text",
  [SNIFF_ZIP] = "a zip archive",
  [SNIFF_GZIP] = "gzip data",
  [SNIFF_ZSTD] = "zstd data",
  [SNIFF_TAR] = "a tar archive",
  [SNIFF_BZIP2] = "bzip2 data",
  [SNIFF_XZ] = "xz data",
  [SNIFF_7Z] = "a 7z archive",
  [SNIFF_RAR] = "a RAR archive",
  [SNIFF_PICKLE] = "a Python pickle",
  [SNIFF_HDF5] = "an HDF5 file",
  [SNIFF_ELF] = "an ELF program",
  [SNIFF_PE] = "a Windows program",
};

static gboolean
is_blank (guint8 c)
{
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static gboolean
starts_like_html (const char *text, gsize size)
{
  static const char *const tags[] = { "<!doctype", "<html", "<head", "<body", "<?xml" };
  for (guint i = 0; i < G_N_ELEMENTS (tags); i++)
    if (size >= strlen (tags[i]) && g_ascii_strncasecmp (text, tags[i], strlen (tags[i])) == 0)
      return TRUE;
  return FALSE;
}

/* A text that opens an object or array: '{' and a quote or a closing brace, '[' and a value. */
static gboolean
starts_like_json (const guint8 *head, gsize size)
{
  if (size == 0 || (head[0] != '{' && head[0] != '['))
    return FALSE;
  gsize i = 1;
  while (i < size && is_blank (head[i]))
    i++;
  if (i == size)
    return TRUE;
  const char *values = head[0] == '{' ? "\"}" : "\"{[]-0123456789tfn";
  return head[i] != 0 && strchr (values, head[i]) != NULL;
}

static gboolean
starts_like_safetensors (const guint8 *head, gsize size)
{
  guint64 header_bytes;
  if (size < 9)
    return FALSE;
  memcpy (&header_bytes, head, sizeof header_bytes);
  header_bytes = GUINT64_FROM_LE (header_bytes);
  return header_bytes >= 2 && header_bytes <= 100 * 1000 * 1000 && (head[8] == '{' || is_blank (head[8]));
}

SniffKind
sniff (const guint8 *head, gsize size)
{
  for (guint i = 0; i < G_N_ELEMENTS (magics); i++)
    if (size >= magics[i].offset + magics[i].size
        && memcmp (head + magics[i].offset, magics[i].bytes, magics[i].size) == 0)
      return starts_like_safetensors (head, size) ? SNIFF_SAFETENSORS : magics[i].kind;
  if (starts_like_safetensors (head, size))
    return SNIFF_SAFETENSORS;
  gsize skip = size >= 3 && memcmp (head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  while (skip < size && is_blank (head[skip]))
    skip++;
  if (starts_like_html ((const char *) head + skip, size - skip))
    return SNIFF_HTML;
  return starts_like_json (head + skip, size - skip) ? SNIFF_JSON : SNIFF_UNKNOWN;
}

const char *
sniff_describe (SniffKind kind)
{
  return descriptions[kind];
}

gboolean
sniff_expect (SniffKind wanted, const guint8 *head, gsize size, GError **error)
{
  SniffKind kind = sniff (head, size);
  if (kind == wanted || kind == SNIFF_UNKNOWN)
    return TRUE;
  if (kind == SNIFF_LFS_POINTER)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "LfsPointer",
                    "this is a Git LFS pointer, not the weights: run `git lfs pull`");
  if (kind == SNIFF_PICKLE)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PickleRejected",
                    "this is a Python pickle, which can run code when it is loaded, not %s", descriptions[wanted]);
  return format_fail (error, "this is %s, not %s", descriptions[kind], descriptions[wanted]);
}
