# The digits, where digits.c has them in the native programs; unpacked, since the module is compressed as a whole.
	.section	.rodata.digits,"",@
	.globl	digits_csv_gz
	.globl	digits_csv_gz_end
	.type	digits_csv_gz,@object
	.type	digits_csv_gz_end,@object
digits_csv_gz:
	.incbin	"digits.csv"
digits_csv_gz_end:
	.int8	0
	.size	digits_csv_gz, digits_csv_gz_end-digits_csv_gz
	.size	digits_csv_gz_end, 1
