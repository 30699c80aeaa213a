#include "formats/foreign_name.h"

#include <string.h>

#define SHOWN_BYTES 96

int
foreign_name_compare (const char *a, gsize a_size, const char *b, gsize b_size)
{
  int order = memcmp (a, b, MIN (a_size, b_size));
  if (order != 0)
    return order;
  return a_size < b_size ? -1 : a_size > b_size;
}

char *
foreign_name_show (const char *name, gsize size)
{
  g_autofree char *valid = g_utf8_make_valid (name, (gssize) MIN (size, SHOWN_BYTES));
  for (char *c = valid; *c != '\0'; c++)
    if (g_ascii_iscntrl (*c))
      *c = '?';
  return g_strdup_printf ("\"%s%s\"", valid, size > SHOWN_BYTES ? "..." : "");
}
