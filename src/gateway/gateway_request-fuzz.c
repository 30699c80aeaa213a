/* Any body of any call: refused with a reason, or within what the call takes. */
#include "gateway/gateway_request.h"

#include <string.h>

#include "domain/upload_rules.h"
#include "storage/object_parts.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_probe (GBytes *body)
{
  g_auto (ProbeRequest) request = { 0 };
  g_autoptr (GError) error = NULL;
  if (!probe_request_parse (body, &request, &error))
    {
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      return;
    }
  g_autofree char *again = upload_file_name (request.file_name);
  g_assert_cmpstr (again, ==, request.file_name);
  g_assert_cmpint (request.size_bytes, >=, 0);
  g_assert_cmpuint (g_bytes_get_size (request.chunk), >, 0);
  g_assert_cmpuint (g_bytes_get_size (request.chunk), <=, UPLOAD_PROBE_BYTES + 2);
}

static void
check_lists (GBytes *body)
{
  g_autoptr (GArray) numbers = parts_request_parse (body, NULL);
  g_autoptr (GPtrArray) parts = complete_request_parse (body, NULL);
  for (guint i = 0; numbers != NULL && i < numbers->len; i++)
    g_assert_true (g_array_index (numbers, guint, i) >= 1 && g_array_index (numbers, guint, i) <= OBJECT_PARTS_MAX);
  guint last = 0;
  for (guint i = 0; parts != NULL && i < parts->len; i++)
    {
      const ObjectPart *part = g_ptr_array_index (parts, i);
      g_assert_cmpuint (part->number, >, last);
      g_assert_cmpuint (part->number, <=, OBJECT_PARTS_MAX);
      last = part->number;
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) body = g_bytes_new (data, size);
  g_autofree char *header = g_strndup ((const char *) data, size), *name = upload_disposition_name (header);
  g_autofree char *file = init_request_parse (body, NULL);
  check_probe (body);
  check_lists (body);
  if (empty_request_check (body, NULL))
    g_assert_null (file);
  g_assert_true (name == NULL || strlen (name) <= size);
  return 0;
}
