/* A reader of one file of a source that remembers why it failed: what stands between it and the one who publishes puts
 * words of its own around errors, such as a registry's address, and it is the source that is to be named. Private to
 * publish/. */
#pragma once

#include "base/reader.h"

/* Takes `inner` over; NULL for NULL. */
Reader *source_reader_new (Reader *inner);
/* Why the last reading failed; NULL: it did not, or was only cancelled. Call when nobody reads any more. */
const GError *source_reader_problem (const Reader *self);
