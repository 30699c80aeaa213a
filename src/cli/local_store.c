#include "cli/places.h"

void
local_store_free (LocalStore *self)
{
  if (self == NULL)
    return;
  blob_store_free (self->blobs);
  object_store_free (self->objects);
  g_free (self);
}
