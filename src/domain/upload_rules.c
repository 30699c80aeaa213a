#include "domain/upload_rules.h"

#include <string.h>

#define MAX_NAME_BYTES 200

typedef enum { CONTENT_OTHER, CONTENT_GGUF, CONTENT_ZIP, CONTENT_GZIP, CONTENT_ZSTD, CONTENT_TAR } Content;

/* How each begins. */
static const struct {
  Content content;
  gsize offset, size;
  const char *bytes;
} magics[] = {
  { CONTENT_GGUF, 0, 4, "GGUF" },   { CONTENT_ZIP, 0, 4, "PK\3\4" },    { CONTENT_ZIP, 0, 4, "PK\5\6" },
  { CONTENT_ZIP, 0, 4, "PK\7\10" }, { CONTENT_GZIP, 0, 2, "\x1f\x8b" }, { CONTENT_ZSTD, 0, 4, "\x28\xb5\x2f\xfd" },
  { CONTENT_TAR, 257, 5, "ustar" },
};

static const char *const inferred[] = {
  [CONTENT_OTHER] = ".bin",   [CONTENT_GGUF] = ".gguf",    [CONTENT_ZIP] = ".zip",
  [CONTENT_GZIP] = ".tar.gz", [CONTENT_ZSTD] = ".tar.zst", [CONTENT_TAR] = ".tar",
};

static const struct {
  const char *extension;
  Content content;
  const char *what;
} accepted[] = {
  { ".gguf", CONTENT_GGUF, "a GGUF file" },       { ".zip", CONTENT_ZIP, "a zip archive" },
  { ".tar.gz", CONTENT_GZIP, "a gzip archive" },  { ".tgz", CONTENT_GZIP, "a gzip archive" },
  { ".tar.zst", CONTENT_ZSTD, "a zstd archive" }, { ".tar.zstd", CONTENT_ZSTD, "a zstd archive" },
  { ".tzst", CONTENT_ZSTD, "a zstd archive" },    { ".tar", CONTENT_TAR, "a tar archive" },
};

static Content
content_of (const guint8 *head, gsize size)
{
  for (gsize i = 0; i < G_N_ELEMENTS (magics); i++)
    if (size >= magics[i].offset + magics[i].size
        && memcmp (head + magics[i].offset, magics[i].bytes, magics[i].size) == 0)
      return magics[i].content;
  return CONTENT_OTHER;
}

char *
upload_file_name (const char *sent)
{
  if (sent == NULL || !g_utf8_validate (sent, -1, NULL))
    return NULL;
  const char *slash = strrchr (sent, '/'), *backslash = strrchr (sent, '\\');
  const char *base = MAX (slash, backslash) != NULL ? MAX (slash, backslash) + 1 : sent;
  gsize size = strlen (base);
  if (size == 0 || size > MAX_NAME_BYTES || base[0] == '.')
    return NULL;
  for (gsize i = 0; i < size; i++)
    if (g_ascii_iscntrl (base[i]))
      return NULL;
  return g_strdup (base);
}

/* A token, or a quoted string whose backslashes are taken off, from `*at` on. */
static char *
take_value (const char **at)
{
  GString *value = g_string_new (NULL);
  if (**at != '"')
    for (; **at != '\0' && strchr ("; \t", **at) == NULL; (*at)++)
      g_string_append_c (value, **at);
  else
    for ((*at)++; **at != '\0' && *(*at)++ != '"';)
      {
        const char *c = *at - 1;
        if (*c == '\\' && **at != '\0')
          c = (*at)++;
        g_string_append_c (value, *c);
      }
  return g_string_free (value, FALSE);
}

char *
upload_disposition_name (const char *header)
{
  const char *at = header + strcspn (header, ";");
  while (*at == ';')
    {
      at += strspn (at, "; \t");
      gsize size = strcspn (at, "=; \t");
      gboolean is_name = size == strlen ("filename") && g_ascii_strncasecmp (at, "filename", size) == 0;
      at += size;
      at += strspn (at, " \t");
      if (*at == '=')
        {
          at++;
          at += strspn (at, " \t");
          g_autofree char *value = take_value (&at);
          if (is_name)
            return g_steal_pointer (&value);
        }
      at += strcspn (at, ";");
    }
  return NULL;
}

char *
upload_infer_name (const char *owner_name, const guint8 *head, gsize size)
{
  const char *base = owner_name != NULL && owner_name[0] != '\0' ? owner_name : "model";
  return g_strdup_printf ("%.*s%s", MAX_NAME_BYTES - 10, base, inferred[content_of (head, size)]);
}

gboolean
upload_check (const char *file_name, const guint8 *head, gsize size, const char **out_format, GError **error)
{
  g_autofree char *lower = g_ascii_strdown (file_name, -1);
  if (size == 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is empty", file_name);
  if (size > UPLOAD_PROBE_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "more than the first %u bytes of %s were sent",
                    UPLOAD_PROBE_BYTES, file_name);
  for (gsize i = 0; i < G_N_ELEMENTS (accepted); i++)
    if (g_str_has_suffix (lower, accepted[i].extension))
      {
        if (content_of (head, size) != accepted[i].content)
          return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s does not begin as %s", file_name,
                          accepted[i].what);
        *out_format = accepted[i].content == CONTENT_GGUF ? "GGUF" : "";
        return TRUE;
      }
  if (g_str_has_suffix (lower, ".safetensors"))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                    "%s alone is no model: upload an archive with it and its config.json", file_name);
  return am_fail (
    error, AM_ERROR_INVALID_ARGUMENT, NULL,
    "%s cannot be published: upload a .gguf file, or a .zip, .tar, .tar.gz, .tgz, .tar.zst or .tzst archive",
    file_name);
}
