/* notes_of_dtypes.h: what the column of dtypes in ops.def means to who calls a function of one array
 * or of two; the end of its docstring, as notes.def is of the others'. */
#ifndef NOTES_OF_DTYPES_H
#define NOTES_OF_DTYPES_H

#define ONE_ANY "Any shape and dtype."
#define ONE_NUMERIC "Any shape and dtype; bool becomes int32."
#define ONE_REAL "Any shape, real dtypes. ValueError for complex numbers."
#define ONE_INEXACT "Any shape and dtype; integers and bool become float32."
#define ONE_FLOAT "Any shape, real dtypes; integers and bool become float32. ValueError for complex numbers."
#define ONE_INTEGER "Any shape, integer dtypes and bool. ValueError for others."
#define ONE_SHIFTED "Any shape, integer dtypes and bool, which counts as uint8. ValueError for others."
#define ONE_BOOL "Any shape and dtype; what is not zero counts as True."
#define TWO_SHAPES "Shapes broadcast, "
#define NOT_FOR " ValueError for shapes that do not broadcast"
#define TWO_ANY TWO_SHAPES "and any dtypes promote." NOT_FOR "."
#define TWO_REAL TWO_SHAPES "and real dtypes promote." NOT_FOR " and for complex numbers."
#define TWO_INEXACT TWO_SHAPES "and any dtypes promote; integers and bool become float32." NOT_FOR "."
#define TWO_FLOAT \
    TWO_SHAPES "and real dtypes promote; integers and bool become float32." NOT_FOR "\nand for complex numbers."
#define TWO_INTEGER TWO_SHAPES "and integer dtypes and bool promote." NOT_FOR " and for other dtypes."
#define TWO_SHIFTED \
    TWO_SHAPES "and integer dtypes and bool, which counts as uint8, promote." NOT_FOR "\nand for other dtypes."
#define TWO_BOOL TWO_SHAPES "of any dtypes; what is not zero counts as True." NOT_FOR "."

#endif
