/* Which license a text is (ollama_manifest.h). Ollama keeps the text alone. */
#include <string.h>

#include "sources/ollama_manifest.h"

/* Of the text, blanks made one, in lower case: titles stand near the beginning. */
#define TITLE_BYTES 1024u

/* The first row whose words all occur counts. The names are the hub's and SPDX's. */
static const struct {
  const char *title, *more; /* `more` may be NULL */
  const char *name;
} licenses[] = {
  { "apache license", "version 2.0", "apache-2.0" },
  { "mit license", NULL, "mit" },
  { "permission is hereby granted, free of charge", "to deal in the software without restriction", "mit" },
  { "llama 4 community license", NULL, "llama4" },
  { "llama 3.3 community license", NULL, "llama3.3" },
  { "llama 3.2 community license", NULL, "llama3.2" },
  { "llama 3.1 community license", NULL, "llama3.1" },
  { "llama 3 community license", NULL, "llama3" },
  { "llama 2 community license", NULL, "llama2" },
  { "gemma terms of use", NULL, "gemma" },
  { "gnu affero general public license", "version 3", "agpl-3.0" },
  { "gnu lesser general public license", "version 3", "lgpl-3.0" },
  { "gnu general public license", "version 3", "gpl-3.0" },
  { "bsd 3-clause", NULL, "bsd-3-clause" },
  { "bsd 2-clause", NULL, "bsd-2-clause" },
  { "creative commons attribution-noncommercial 4.0", NULL, "cc-by-nc-4.0" },
  { "creative commons attribution-sharealike 4.0", NULL, "cc-by-sa-4.0" },
  { "creative commons attribution 4.0", NULL, "cc-by-4.0" },
  { "creative commons legal code", "cc0 1.0", "cc0-1.0" },
  { "bigscience open rail-m", NULL, "bigscience-openrail-m" },
  { "bigcode open rail-m", NULL, "bigcode-openrail-m" },
};

/* Caller frees. */
static char *
read_title (GBytes *text)
{
  gsize size;
  const char *data = g_bytes_get_data (text, &size);
  g_autoptr (GString) title = g_string_sized_new (TITLE_BYTES);
  for (gsize i = 0; i < size && title->len < TITLE_BYTES; i++)
    {
      gboolean is_blank = g_ascii_isspace (data[i]) || data[i] == '\0';
      if (!is_blank)
        g_string_append_c (title, g_ascii_tolower (data[i]));
      else if (title->len > 0 && title->str[title->len - 1] != ' ')
        g_string_append_c (title, ' ');
    }
  return g_string_free (g_steal_pointer (&title), FALSE);
}

const char *
ollama_license_name (GBytes *text)
{
  g_autofree char *title = read_title (text);
  for (gsize i = 0; i < G_N_ELEMENTS (licenses); i++)
    if (strstr (title, licenses[i].title) != NULL
        && (licenses[i].more == NULL || strstr (title, licenses[i].more) != NULL))
      return licenses[i].name;
  return NULL;
}
