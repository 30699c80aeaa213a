/* Little-endian integers of the store's binary formats. Private to storage/. */
#pragma once

#include <glib.h>
#include <string.h>

static inline void
wire_put_u32 (guint8 *out, guint32 value)
{
  value = GUINT32_TO_LE (value);
  memcpy (out, &value, sizeof value);
}

static inline void
wire_put_u64 (guint8 *out, guint64 value)
{
  value = GUINT64_TO_LE (value);
  memcpy (out, &value, sizeof value);
}

static inline guint32
wire_get_u32 (const guint8 *in)
{
  guint32 value;
  memcpy (&value, in, sizeof value);
  return GUINT32_FROM_LE (value);
}

static inline guint64
wire_get_u64 (const guint8 *in)
{
  guint64 value;
  memcpy (&value, in, sizeof value);
  return GUINT64_FROM_LE (value);
}
