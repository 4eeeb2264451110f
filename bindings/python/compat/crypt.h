/* Python.h of Python 3.8 to 3.12 includes <crypt.h>, which newer C libraries, and so the cross compiler's headers, no
 * longer have. Nothing of it is used. */
