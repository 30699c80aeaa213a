#include "domain/name_hints.h"

#include <string.h>

void
name_hints_clear (NameHints *self)
{
  g_clear_pointer (&self->family, g_free);
  g_clear_pointer (&self->quantization, g_free);
}

/* Optional "i", "q", a digit 2..8, then nothing or "_..." . */
static gboolean
is_quantization (const char *word)
{
  const char *c = *word == 'i' ? word + 1 : word;
  return c[0] == 'q' && c[1] >= '2' && c[1] <= '8' && (c[2] == '\0' || c[2] == '_');
}

/* "7b", "0.5b", also as a factor: "8x7b" counts the 7 times 8. 0 when it is no size. */
static double
size_in_billions (const char *word)
{
  char *end;
  if (!g_ascii_isdigit (*word))
    return 0;
  double number = g_ascii_strtod (word, &end);
  if (*end == 'x' && g_ascii_isdigit (end[1]))
    number *= g_ascii_strtod (end + 1, &end);
  return end[0] == 'b' && end[1] == '\0' && number > 0 && number < 100000 ? number : 0;
}

static char *
find_float (const char *lower)
{
  if (strstr (lower, "bf16") != NULL) /* first: "f16" is a part of it */
    return g_strdup ("bf16");
  return strstr (lower, "f16") != NULL ? g_strdup ("f16") : NULL;
}

NameHints
name_hints_read (const char *stem)
{
  NameHints self = { 0 };
  double billions = 0;
  g_autofree char *lower = g_ascii_strdown (stem != NULL ? stem : "", -1);
  g_autoptr (GString) family = g_string_new (NULL);
  /* A point inside a number ("0.5b", "v1.1") separates nothing. */
  for (char *c = lower; *c != '\0'; c++)
    if (*c == '.' && c > lower && !(g_ascii_isdigit (c[-1]) && g_ascii_isdigit (c[1])))
      *c = '-';
  g_auto (GStrv) words = g_strsplit_set (lower, "- ", -1);
  for (guint i = 0; words[i] != NULL; i++)
    {
      double size = size_in_billions (words[i]);
      billions = MAX (billions, size);
      if (self.quantization != NULL)
        continue;
      if (is_quantization (words[i]))
        self.quantization = g_strdup (words[i]);
      else if (size == 0 && words[i][0] != '\0' && strcmp (words[i], "f16") != 0 && strcmp (words[i], "bf16") != 0)
        g_string_append_printf (family, "%s%s", family->len > 0 ? "-" : "", words[i]);
    }
  if (self.quantization == NULL)
    self.quantization = find_float (lower);
  self.n_parameters = (guint64) (billions * 1e9);
  self.family = family->len > 0 ? g_string_free (g_steal_pointer (&family), FALSE) : NULL;
  return self;
}
