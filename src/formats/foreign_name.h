/* Names that a stranger chose: any bytes of a given length. Pure; used wherever such names are sorted or
 * shown. */
#pragma once

#include <glib.h>

/* By bytes, a prefix before what it begins. */
int foreign_name_compare (const char *a, gsize a_size, const char *b, gsize b_size);
/* Fit for a message: quoted, printable, cut when long. Caller frees. */
char *foreign_name_show (const char *name, gsize size);
