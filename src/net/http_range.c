#include "net/http_range.h"

#include <string.h>

/* Reads decimal digits at `*cursor` and moves past them. A value that does not fit is G_MAXUINT64: in
 * a Range header that means "past any body". FALSE when there is no digit. */
static gboolean
take_number (const char **cursor, guint64 *out_value)
{
  const char *start = *cursor;
  guint64 value = 0;
  for (; g_ascii_isdigit (**cursor); (*cursor)++)
    if (__builtin_mul_overflow (value, 10u, &value)
        || __builtin_add_overflow (value, (guint64) (**cursor - '0'), &value))
      {
        *cursor += strspn (*cursor, "0123456789");
        *out_value = G_MAXUINT64;
        return TRUE;
      }
  *out_value = value;
  return *cursor != start;
}

/* As above, for offsets that must be real: at most G_MAXINT64. */
static gboolean
take_offset (const char **cursor, guint64 *out_value)
{
  return take_number (cursor, out_value) && *out_value <= G_MAXINT64;
}

static HttpRangeVerdict
suffix_range (guint64 length, guint64 size_bytes, guint64 *out_first, guint64 *out_length)
{
  if (length == 0 || size_bytes == 0)
    return HTTP_RANGE_UNSATISFIABLE;
  *out_length = MIN (length, size_bytes);
  *out_first = size_bytes - *out_length;
  return HTTP_RANGE_PART;
}

HttpRangeVerdict
http_range_parse (const char *header, guint64 size_bytes, guint64 *out_first, guint64 *out_length)
{
  static const char blanks[] = " \t";
  if (header == NULL || g_ascii_strncasecmp (header, "bytes=", 6) != 0)
    return HTTP_RANGE_NONE;
  const char *cursor = header + 6 + strspn (header + 6, blanks);
  guint64 first = 0, last = G_MAXUINT64;
  gboolean has_first = take_number (&cursor, &first);
  if (*cursor != '-')
    return HTTP_RANGE_NONE;
  cursor++;
  gboolean has_last = take_number (&cursor, &last);
  if (cursor[strspn (cursor, blanks)] != '\0' || (!has_first && !has_last))
    return HTTP_RANGE_NONE;
  if (!has_first)
    return suffix_range (last, size_bytes, out_first, out_length);
  if (!has_last)
    last = G_MAXUINT64;
  /* RFC 9110 14.2: an invalid range should be refused, and registries' clients count on it. */
  if (last < first || first >= size_bytes)
    return HTTP_RANGE_UNSATISFIABLE;
  *out_first = first;
  *out_length = MIN (last, size_bytes - 1) - first + 1;
  return HTTP_RANGE_PART;
}

/* "a-b" with an optional "/total" or "/ *"; the whole rest of `cursor` must fit. */
static gboolean
parse_extent (const char *cursor, gboolean total_required, guint64 *out_first, guint64 *out_last, guint64 *out_total)
{
  guint64 first, last, total = G_MAXUINT64;
  if (!take_offset (&cursor, &first) || *cursor++ != '-' || !take_offset (&cursor, &last) || last < first)
    return FALSE;
  if (*cursor == '\0' && total_required)
    return FALSE;
  if (*cursor != '\0')
    {
      if (*cursor++ != '/')
        return FALSE;
      if (*cursor == '*')
        cursor++;
      else if (!take_offset (&cursor, &total) || last >= total)
        return FALSE;
      if (*cursor != '\0')
        return FALSE;
    }
  *out_first = first;
  *out_last = last;
  *out_total = total;
  return TRUE;
}

gboolean
http_upload_range_parse (const char *header, guint64 *out_first, guint64 *out_last, GError **error)
{
  guint64 total;
  gboolean has_unit = header != NULL && g_ascii_strncasecmp (header, "bytes ", 6) == 0;
  if (header == NULL || !parse_extent (has_unit ? header + 6 : header, FALSE, out_first, out_last, &total))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "malformed Content-Range of an upload");
  return TRUE;
}

gboolean
http_content_range_parse (const char *header, guint64 *out_first, guint64 *out_last, guint64 *out_total,
                          GError **error)
{
  if (header == NULL || g_ascii_strncasecmp (header, "bytes ", 6) != 0
      || !parse_extent (header + 6, TRUE, out_first, out_last, out_total))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the peer sent a malformed Content-Range");
  return TRUE;
}
