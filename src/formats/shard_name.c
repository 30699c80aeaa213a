#include "formats/shard_name.h"

#include <string.h>

#define OF "-of-"

/* 5 or 6 digits at `*text`, moved behind them. */
static gboolean
scan_number (const char **text, guint *out_number)
{
  guint n_digits = 0, number = 0;
  for (; g_ascii_isdigit (**text) && n_digits <= 6; (*text)++, n_digits++)
    number = number * 10 + (guint) (**text - '0');
  *out_number = number;
  return n_digits == 5 || n_digits == 6;
}

gboolean
shard_name_parse (const char *name, ShardName *out_shard)
{
  const char *slash = strrchr (name, '/');
  const char *base = slash != NULL ? slash + 1 : name;
  for (const char *of = strstr (base, OF); of != NULL; of = strstr (of + 1, OF))
    {
      const char *digits = of, *behind = of + strlen (OF);
      while (digits > base && g_ascii_isdigit (digits[-1]))
        digits--;
      ShardName shard = { 0 };
      const char *scan = digits;
      if (digits <= base + 1 || (digits[-1] != '-' && digits[-1] != '_') || !scan_number (&scan, &shard.no)
          || scan != of || !scan_number (&behind, &shard.count) || *behind != '.')
        continue;
      if (shard.no == 0 || shard.no > shard.count)
        continue;
      shard.stem_size = (gsize) (digits - 1 - name);
      shard.rest = behind;
      *out_shard = shard;
      return TRUE;
    }
  return FALSE;
}

gboolean
shard_name_same_set (const char *a, const char *b)
{
  ShardName x, y;
  return shard_name_parse (a, &x) && shard_name_parse (b, &y) && x.stem_size == y.stem_size && x.count == y.count
         && memcmp (a, b, x.stem_size) == 0 && strcmp (x.rest, y.rest) == 0;
}
