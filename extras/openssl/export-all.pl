#!/usr/bin/env perl
# Stands in for OpenSSL's util/mkdef.pl, which the registry's crate leaves out: a linker's version script for Linux, in
# which every symbol is exported.
print "OPENSSL_3.0.0 {\n    global:\n        *;\n};\n";
