#include "base/text.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

char *
text_bytes (guint64 n_bytes)
{
  static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
  if (n_bytes < 1000)
    return g_strdup_printf ("%" G_GUINT64_FORMAT " B", n_bytes);
  double value = (double) n_bytes / 1000;
  guint unit = 0;
  for (; value >= 999.95 && unit + 1 < G_N_ELEMENTS (units); unit++)
    value /= 1000;
  return g_strdup_printf ("%.1f %s", value, units[unit]);
}

char *
text_count (guint64 count)
{
  static const char letters[] = "KMBTQ";
  if (count < 1000)
    return g_strdup_printf ("%" G_GUINT64_FORMAT, count);
  double value = (double) count / 1000;
  guint letter = 0;
  for (; value >= 999.95 && letters[letter + 1] != '\0'; letter++)
    value /= 1000;
  double rounded = round (value * 10) / 10;
  if (rounded == floor (rounded))
    return g_strdup_printf ("%.0f%c", rounded, letters[letter]);
  return g_strdup_printf ("%.1f%c", rounded, letters[letter]);
}

gboolean
text_parse_u64 (const char *text, guint64 *out_value)
{
  guint64 value = 0;
  if (text == NULL || *text == '\0')
    return FALSE;
  for (; *text != '\0'; text++)
    if (!g_ascii_isdigit (*text) || __builtin_mul_overflow (value, 10u, &value)
        || __builtin_add_overflow (value, (guint64) (*text - '0'), &value))
      return FALSE;
  *out_value = value;
  return TRUE;
}

gboolean
text_parse_bytes (const char *text, guint64 *out_bytes)
{
  static const struct {
    const char *suffix;
    guint64 factor;
  } units[] = {
    { "", 1 },
    { "b", 1 },
    { "k", 1000 },
    { "kb", 1000 },
    { "m", 1000000 },
    { "mb", 1000000 },
    { "g", 1000000000 },
    { "gb", 1000000000 },
    { "t", 1000000000000 },
    { "tb", 1000000000000 },
    { "ki", 1ull << 10 },
    { "kib", 1ull << 10 },
    { "mi", 1ull << 20 },
    { "mib", 1ull << 20 },
    { "gi", 1ull << 30 },
    { "gib", 1ull << 30 },
    { "ti", 1ull << 40 },
    { "tib", 1ull << 40 },
  };
  gsize n_digits = text != NULL ? strspn (text, "0123456789") : 0;
  g_autofree char *digits = g_strndup (text, n_digits);
  guint64 value;
  if (n_digits == 0 || !text_parse_u64 (digits, &value))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    if (g_ascii_strcasecmp (text + n_digits, units[i].suffix) == 0)
      return !__builtin_mul_overflow (value, units[i].factor, out_bytes);
  return FALSE;
}

#define MAX_QUANTITY_BYTES 64
#define MAX_EXPONENT 30

__extension__ typedef unsigned __int128 Wide;

/* Digits with at most one point among them; `text` moves behind them. FALSE without a digit, or when they are too many. */
static gboolean
take_decimal (const char **text, Wide *out_digits, int *out_exponent)
{
  gboolean has_point = FALSE, has_digit = FALSE;
  Wide digits = 0;
  int exponent = 0;
  for (;; (*text)++)
    {
      if (**text == '.' && !has_point)
        has_point = TRUE;
      else if (!g_ascii_isdigit (**text))
        break;
      else if (__builtin_mul_overflow (digits, (Wide) 10, &digits)
               || __builtin_add_overflow (digits, (Wide) (**text - '0'), &digits))
        return FALSE;
      else
        {
          has_digit = TRUE;
          exponent -= has_point;
        }
    }
  *out_digits = digits;
  *out_exponent = exponent;
  return has_digit;
}

/* What a suffix multiplies by: a power of two, and one of ten. */
static gboolean
parse_suffix (const char *suffix, guint *out_shift, int *out_exponent)
{
  static const struct {
    const char *suffix;
    guint shift;
    int exponent;
  } suffixes[] = {
    { "", 0, 0 },    { "n", 0, -9 },  { "u", 0, -6 },  { "m", 0, -3 },  { "k", 0, 3 },   { "M", 0, 6 },
    { "G", 0, 9 },   { "T", 0, 12 },  { "P", 0, 15 },  { "E", 0, 18 },  { "Ki", 10, 0 }, { "Mi", 20, 0 },
    { "Gi", 30, 0 }, { "Ti", 40, 0 }, { "Pi", 50, 0 }, { "Ei", 60, 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (strcmp (suffix, suffixes[i].suffix) == 0)
      {
        *out_shift = suffixes[i].shift;
        *out_exponent = suffixes[i].exponent;
        return TRUE;
      }
  gint64 exponent;
  if (g_ascii_tolower (suffix[0]) != 'e')
    return FALSE;
  const char *number = suffix + 1 + (suffix[1] == '+' && suffix[2] != '-');
  if (!g_ascii_string_to_signed (number, 10, -MAX_EXPONENT, MAX_EXPONENT, &exponent, NULL))
    return FALSE;
  *out_shift = 0;
  *out_exponent = (int) exponent;
  return TRUE;
}

gboolean
text_parse_quantity (const char *text, guint64 *out_value)
{
  Wide value;
  guint shift;
  int point, exponent;
  if (text == NULL || strlen (text) > MAX_QUANTITY_BYTES)
    return FALSE;
  text += *text == '+';
  if (!take_decimal (&text, &value, &point) || !parse_suffix (text, &shift, &exponent)
      || __builtin_mul_overflow (value, (Wide) 1 << shift, &value))
    return FALSE;
  for (exponent += point; exponent > 0; exponent--)
    if (__builtin_mul_overflow (value, (Wide) 10, &value))
      return FALSE;
  for (gboolean rest = FALSE; exponent < 0; exponent++)
    {
      rest |= value % 10 != 0;
      value = value / 10 + (exponent == -1 && rest);
    }
  if (value > G_MAXINT64)
    return FALSE;
  *out_value = (guint64) value;
  return TRUE;
}

void
text_uuid (char buffer[37])
{
  guint8 bytes[16];
  if (getrandom (bytes, sizeof bytes, 0) != sizeof bytes)
    g_error ("the kernel gives no random bytes");
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  static const char digits[] = "0123456789abcdef";
  gsize n = 0;
  for (guint i = 0; i < 16; i++)
    {
      if (i == 4 || i == 6 || i == 8 || i == 10)
        buffer[n++] = '-';
      buffer[n++] = digits[bytes[i] >> 4];
      buffer[n++] = digits[bytes[i] & 15];
    }
  buffer[n] = '\0';
}

gboolean
text_is_uuid (const char *text)
{
  if (text == NULL || strlen (text) != 36)
    return FALSE;
  for (guint i = 0; i < 36; i++)
    {
      gboolean dash = i == 8 || i == 13 || i == 18 || i == 23;
      if (dash ? text[i] != '-' : !g_ascii_isxdigit (text[i]) || g_ascii_isupper (text[i]))
        return FALSE;
    }
  return TRUE;
}

char *
time_text_now (void)
{
  return time_text (g_get_real_time () / G_USEC_PER_SEC);
}

char *
time_text (gint64 time_s)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (time_s);
  return g_date_time_format (time, "%Y-%m-%dT%H:%M:%SZ");
}

gint64
time_text_parse (const char *text)
{
  g_autoptr (GTimeZone) utc = g_time_zone_new_utc ();
  g_autoptr (GDateTime) time = text != NULL ? g_date_time_new_from_iso8601 (text, utc) : NULL;
  return time != NULL ? g_date_time_to_unix (time) : 0;
}
