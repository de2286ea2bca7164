/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * C bindings of casacore's tables, Measurement Set selection, TaQL and direction measures.
 *
 * This header depends only on the C library, and the library (target casacore-c) only on casacore.
 *
 * Errors. A function that can fail returns CCC_OK (0) or one of the negative codes below, and sets a one-line message
 * that ccc_error() returns. C++ exceptions do not leave the library. Apart from the codes that are listed with it, any
 * function that returns int may return CCC_EARGUMENT (the table is NULL), CCC_ENOMEM and CCC_EFAILED.
 *
 * Threads. casacore has one table cache for the process, so every call takes one process-wide lock: calls from several
 * threads are safe, but do not run in parallel. Use processes to read in parallel.
 *
 * Paths are used as given: `~`, `::`, brackets and blanks in a name have no special meaning. casacore would replace
 * `$NAME` by the value of a variable. This is prevented in the directories above a table that is opened, and refused
 * (CCC_EARGUMENT) in its own name and in the path of a new table.
 *
 * Arrays. Shapes are in casacore's order, fastest axis first: a DATA cell of shape {n_corr, n_chan} is n_chan groups of
 * n_corr numbers in memory, and n_row of them make the C array [n_row][n_chan][n_corr]. Buffers belong to the caller.
 * They are read into or written from without an intermediate copy if they have the column's type.
 */
#ifndef CASACORE_C_H
#define CASACORE_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CCC_MAX_DIM = 8 };

/* ---- Status ---------------------------------------------------------------------------------------------------- */

enum ccc_status {
    CCC_OK = 0,
    CCC_EARGUMENT = -1, /* an invalid row, shape or buffer length */
    CCC_ENOTFOUND = -2, /* no such table, column or keyword */
    CCC_ETYPE = -3,     /* the column or keyword has another type, and there is no conversion */
    CCC_ESHAPE = -4,    /* a cell has no value, or not the requested shape */
    CCC_ELOCKED = -5,   /* another process has locked the table */
    CCC_ENOMEM = -6,    /* not enough memory */
    CCC_EFAILED = -7,   /* casacore failed: damaged files, a failed read or write, an invalid expression */
    CCC_EREADONLY = -8, /* the table, its files or its directory cannot be written */
    CCC_EREFUSED = -9   /* casacore would load a library that the table names, or evaluate an expression of the table */
};

/* ccc_error - return the message of this thread's last failure; "" if none. Borrowed, valid until the next failure. */
const char *ccc_error(void);

/* ccc_error_number - return the errno of this thread's last failure, if casacore's message has it; -1: a write failed
 * for an unknown reason; else 0. */
int ccc_error_number(void);

/*
 * ccc_on_terminate - set a function that is called when an exception that is not caught ends the process, such as one
 * of a destructor or of a thread of casacore. ccc_error then returns its message.
 * Given: leave  must end the process; its argument is a code as functions return it. If it returns, the process aborts
 */
void ccc_on_terminate(void (*leave)(int code));

/* ccc_version - return casacore's version, such as "3.5.0". Borrowed. */
const char *ccc_version(void);

/* ccc_free - free memory that a function below allocated for the caller; NULL is fine. */
void ccc_free(void *p);

/* ---- Types ----------------------------------------------------------------------------------------------------- */

/* Types of the values of a buffer or a column, with the C type. */
typedef enum ccc_type {
    CCC_BOOL,     /* uint8_t, 0 or 1 */
    CCC_UINT8,    /* uint8_t */
    CCC_INT16,    /* int16_t */
    CCC_INT32,    /* int32_t */
    CCC_UINT32,   /* uint32_t */
    CCC_INT64,    /* int64_t */
    CCC_FLOAT,    /* float */
    CCC_DOUBLE,   /* double */
    CCC_COMPLEX,  /* float[2], real and imaginary part */
    CCC_DCOMPLEX, /* double[2] */
    CCC_STRING,   /* only for the functions for strings */
    CCC_OTHER     /* records, tables: not accessible here */
} ccc_type;

/* Part of every cell of an array column, fastest axis first: count[i] elements from start[i], stride[i] apart. */
typedef struct ccc_slice {
    int ndim;
    int64_t start[CCC_MAX_DIM], count[CCC_MAX_DIM], stride[CCC_MAX_DIM];
} ccc_slice;

typedef struct ccc_table ccc_table;

/* ---- Open and close -------------------------------------------------------------------------------------------- */

typedef enum ccc_mode { CCC_READ, CCC_UPDATE } ccc_mode;

typedef enum ccc_lock {
    CCC_LOCK_NONE, /* no lock is taken or written; the files of a table opened for reading are not changed */
    CCC_LOCK_HOLD  /* a read or write lock is taken at once and kept until close; never waits: CCC_ELOCKED */
} ccc_lock;

/* ccc_table_exists - return 1 if path is a directory with a casacore table, else 0. */
int ccc_table_exists(const char *path);

/*
 * ccc_table_open - open a table.
 *
 * Returned: *out  closed by ccc_table_close; NULL on failure
 * Returns:  0, CCC_ENOTFOUND, CCC_ELOCKED, CCC_EREADONLY, CCC_EREFUSED, CCC_EFAILED (also
 *           "truncated or corrupt: FILE ..")
 * Notes:    casacore loads an unknown storage manager or engine from a library of that name, which may be a path. So
 *           the headers of the table, and of the tables that are opened with it (its parent, its members, and tables
 *           with its columns), are read first. All managers must be casacore's own except VirtualTaQLColumn, which
 *           evaluates an expression of the table; or registered by the program; or DyscoStMan, LofarStMan, SiscoStMan,
 *           Adios2StMan, AntennaPairStMan, StokesIStMan, UvwStMan. The sizes of the table's files are compared with
 *           their headers before casacore reads them, because it can crash in short files. Of managers that are not
 *           casacore's own, only DyscoStMan's files are checked. A file of the table that is a FIFO, a device, or a
 *           link that does not lead to a file of a table, causes CCC_EFAILED.
 */
int ccc_table_open(ccc_table **out, const char *path, ccc_mode mode, ccc_lock lock);

/*
 * ccc_table_check - compare the sizes of a table's files with their headers, as ccc_table_open does.
 * Returns: 0, CCC_EFAILED ("truncated or corrupt: FILE .."), CCC_ENOMEM
 */
int ccc_table_check(const char *path);

/*
 * ccc_subtable_open - open the table that keyword `name` (such as "ANTENNA") of parent refers to, with the parent's
 * mode, and locked as the parent is. It may outlive its parent.
 *
 * Returned: *out  closed by ccc_table_close; NULL on failure
 * Returns:  0, CCC_ENOTFOUND (the keyword or its table is missing), CCC_ELOCKED, CCC_EREADONLY, CCC_EFAILED
 */
int ccc_subtable_open(ccc_table **out, ccc_table *parent, const char *name);

/*
 * ccc_table_close - write pending data and close. NULL is fine. The handle becomes invalid even on failure.
 * Returns: 0, CCC_EFAILED (data could not be written; the files are incomplete)
 * Notes:   space for 1 MB of headers is requested first, because casacore 3.5 ends the process if its headers cannot be
 *          written. A caller that must survive a failing disk writes in a child process.
 */
int ccc_table_close(ccc_table *t);

/*
 * ccc_table_flush - write pending data to the files. casacore does not fsync them; the caller may do so.
 * Returns: 0, CCC_EFAILED
 * Notes: table.dat is replaced by a rename. The header of a tiled column with new values is rewritten in place. The
 * values themselves were passed to the kernel when they were put.
 */
int ccc_table_flush(ccc_table *t);

/*
 * ccc_table_forget_changes - remove the list of changes from table.lock, until the next flush that writes something.
 * Without this call, a process that is killed in a flush after it has replaced table.dat leaves a table.lock with
 * another number of columns, and no process can lock the table. Call it before adding a column.
 * Returns: 0, CCC_EREADONLY, CCC_EFAILED
 */
int ccc_table_forget_changes(ccc_table *t);

/* ccc_table_resync - read the changes that another process made since this table was opened. Returns: 0,
 * CCC_EFAILED. */
int ccc_table_resync(ccc_table *t);

/* ccc_table_is_root - return 1 for a table with its own rows and columns; 0 for NULL, and for a table that refers to
 * the rows and columns of others. */
int ccc_table_is_root(const ccc_table *t);

/*
 * ccc_table_parts - list the tables that have the rows: the table itself, the one to which it refers, or the members of
 * a concatenation such as a multi-MS.
 * Returned: *names [*n]  paths; one block of memory, freed by one ccc_free; NULL on failure
 * Returns:  0, CCC_ENOMEM
 */
int ccc_table_parts(const ccc_table *t, char ***names, int64_t *n);

/* ccc_table_path - return the table's directory, absolute. Borrowed, valid until ccc_table_close; "" for NULL. */
const char *ccc_table_path(const ccc_table *t);

/* ---- Rows and columns ------------------------------------------------------------------------------------------ */

/* ccc_table_n_row - return the number of rows; 0 for NULL. */
int64_t ccc_table_n_row(const ccc_table *t);

/* ccc_table_add_rows - append n rows. Returns: 0, CCC_EARGUMENT (n < 0), CCC_EREADONLY, CCC_EFAILED. */
int ccc_table_add_rows(ccc_table *t, int64_t n);

/* ccc_table_has_column - return 1 or 0; 0 also if an argument is NULL. */
int ccc_table_has_column(const ccc_table *t, const char *column);

/*
 * ccc_table_columns - list the names of the columns.
 * Returned: *names [*n]  one block of memory, freed by one ccc_free
 * Returns:  0
 */
int ccc_table_columns(ccc_table *t, char ***names, int64_t *n);

typedef struct ccc_column_info {
    ccc_type type;
    int is_scalar;
    int ndim;                   /* number of dimensions of a cell; 0 for scalars, -1 if cells may differ */
    int is_fixed_shape;         /* shape[] is the shape of every cell */
    int64_t shape[CCC_MAX_DIM]; /* 0 unless is_fixed_shape */
    char manager_type[64];      /* "StandardStMan", "TiledShapeStMan" .. */
    char manager_name[128];     /* its name in this table */
    int manager_n_column;       /* columns stored by the same manager, this one included */
    int manager_file;           /* N of its files table.fN, table.fN_TSM1 ..; -1 if it is not tiled */
    int tile_ndim;              /* 0 if not tiled or nothing is stored yet */
    int64_t tile_shape[CCC_MAX_DIM];
} ccc_column_info;

/* ccc_column_describe - describe the type, shape and storage of a column. Returns: 0, CCC_ENOTFOUND. */
int ccc_column_describe(ccc_table *t, const char *column, ccc_column_info *info);

/* Where a scalar column is stored. */
typedef struct ccc_scalar_place {
    char manager_type[64]; /* "": unknown, or not in the table's own files */
    ccc_type type;
    int is_little_endian;
    int manager_file;      /* N of its file table.fN */
    int column, n_column;  /* number of the column among those of the manager, and their count */
    unsigned char *header; /* [n_header] what table.dat has of the manager; owned, ccc_free; NULL if it is unknown */
    int64_t n_header;
} ccc_scalar_place;

/*
 * ccc_scalar_places - find where scalar columns [n] are stored, by table.dat, which is read again.
 * Returned: place [n]  the places of other columns, and of columns that do not exist, are zero
 * Returns:  0, CCC_EFAILED
 */
int ccc_scalar_places(ccc_table *t, const char *const *columns, int n, ccc_scalar_place *place);

/*
 * ccc_table_managers - list the numbers N of the storage managers, whose files are table.fN, table.fN_TSM0 .. A new
 * manager gets a number above all of them.
 * Returned: *numbers [*n]  ascending, freed by ccc_free; NULL on failure
 * Returns:  0, CCC_EFAILED
 */
int ccc_table_managers(ccc_table *t, int32_t **numbers, int64_t *n);

/* ccc_column_comment - copy the comment in a column's description. Returned: *out, freed by ccc_free; "" if there is
 * none. Returns: 0, CCC_ENOTFOUND. */
int ccc_column_comment(ccc_table *t, const char *column, char **out);

/*
 * ccc_cell_shape - return the shape of one cell.
 * Returned: *ndim 0 for a scalar, -1 if the cell has no value; shape[*ndim]
 * Returns:  0, CCC_ENOTFOUND, CCC_EARGUMENT (no such row), CCC_EFAILED
 */
int ccc_cell_shape(ccc_table *t, const char *column, int64_t row, int *ndim, int64_t shape[CCC_MAX_DIM]);

/*
 * ccc_rows_alike - count the rows from `row` on, at most n_row, whose cells have the same shape as that of `row`, or
 * like it have no value.
 * Returned: *n_alike at least 1; *ndim, shape[] as returned by ccc_cell_shape for `row`
 * Returns:  as ccc_cell_shape; CCC_EARGUMENT also if n_row < 1
 */
int ccc_rows_alike(ccc_table *t, const char *column, int64_t row, int64_t n_row, int64_t *n_alike, int *ndim,
                   int64_t shape[CCC_MAX_DIM]);

/* ---- Read ------------------------------------------------------------------------------------------------------ */

/*
 * ccc_get_range - read rows [row, row + n_row) of a scalar or array column.
 *
 * Given:    slice   part of each cell; NULL for whole cells and for scalar columns
 *           type    of the values in `out`. Values of another type are converted: real numbers and booleans to each
 *                   other (values that do not fit saturate), real or complex to complex
 *           n_out   elements of `out`
 * Returned: out     [n_row][.. slowest .. fastest axis of the cell]
 * Returns:  0, CCC_ENOTFOUND, CCC_ETYPE, CCC_EARGUMENT (rows outside the table; n_out is not the number of elements),
 *           CCC_ESHAPE (cells of different shapes, or without a value), CCC_EFAILED
 * Notes:    fastest for blocks of about 1 MB in tiled columns.
 */
int ccc_get_range(ccc_table *t, const char *column, int64_t row, int64_t n_row, const ccc_slice *slice, ccc_type type,
                  void *out, int64_t n_out);

/* ccc_get_rows - read the listed rows, in ascending order, as ccc_get_range does. */
int ccc_get_rows(ccc_table *t, const char *column, const int64_t *rows, int64_t n_row, const ccc_slice *slice,
                 ccc_type type, void *out, int64_t n_out);

/*
 * ccc_get_string - read one cell of a string column.
 * Returned: *out  freed by ccc_free; NULL on failure
 * Returns:  0, CCC_ENOTFOUND, CCC_ETYPE, CCC_EARGUMENT (no such row), CCC_EFAILED
 */
int ccc_get_string(ccc_table *t, const char *column, int64_t row, char **out);

/*
 * ccc_get_strings - read one cell of a string-array column.
 * Returned: *out [*n]  one block of memory, freed by one ccc_free; NULL on failure
 *           *n is 0 if the cell has no value
 * Returns:  as ccc_get_string
 */
int ccc_get_strings(ccc_table *t, const char *column, int64_t row, char ***out, int64_t *n);

/* ---- Write ----------------------------------------------------------------------------------------------------- */

/*
 * ccc_put_range - write rows [row, row + n_row) of a scalar or array column.
 *
 * Given:    ndim, shape  shape of the values of one row: of the whole cell (which gets this shape if the column's shape
 *                        is not fixed) or, with slice, its counts. 0, NULL for scalar columns
 *           slice        part of each cell; NULL for whole cells
 *           type         of the values in `in`; must be the column's type
 *           in           [n_row][.. slowest .. fastest axis]
 * Returns:  0, CCC_ENOTFOUND, CCC_ETYPE, CCC_EARGUMENT, CCC_ESHAPE, CCC_EREADONLY, CCC_EFAILED
 */
int ccc_put_range(ccc_table *t, const char *column, int64_t row, int64_t n_row, int ndim, const int64_t *shape,
                  const ccc_slice *slice, ccc_type type, const void *in);

/* ccc_put_rows - write to the listed rows, in ascending order, as ccc_put_range does. */
int ccc_put_rows(ccc_table *t, const char *column, const int64_t *rows, int64_t n_row, int ndim, const int64_t *shape,
                 const ccc_slice *slice, ccc_type type, const void *in);

/*
 * ccc_put_shapes - set the shape of the cells of rows [row, row + n_row) of a column without a fixed shape, which
 * allocates the cells. In a tiled column they are zero until they are written. Rows are stored in ascending order if
 * the calls are made in this order.
 * Returns: 0, CCC_ENOTFOUND, CCC_ETYPE (not numbers), CCC_ESHAPE (a scalar column), CCC_EARGUMENT, CCC_EREADONLY,
 *          CCC_EFAILED
 */
int ccc_put_shapes(ccc_table *t, const char *column, int64_t row, int64_t n_row, int ndim, const int64_t *shape);

/* ccc_put_array - write one cell of an array column: ccc_put_range with n_row = 1 and no slice. */
int ccc_put_array(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape, ccc_type type,
                  const void *in);

/*
 * ccc_put_bool, _int, _double, _string - write one cell of a scalar column. ccc_put_int and ccc_put_double convert to
 * the column's numeric type; values out of its range become the nearest possible value.
 * Returns: 0, CCC_ENOTFOUND, CCC_ETYPE, CCC_EARGUMENT (no such row), CCC_EREADONLY, CCC_EFAILED
 */
int ccc_put_bool(ccc_table *t, const char *column, int64_t row, int value);
int ccc_put_int(ccc_table *t, const char *column, int64_t row, int64_t value);
int ccc_put_double(ccc_table *t, const char *column, int64_t row, double value);
int ccc_put_string(ccc_table *t, const char *column, int64_t row, const char *value);

/*
 * ccc_put_strings - write one cell of a string-array column.
 * Given:   values [.. slowest .. fastest axis]  of the shape [ndim]
 * Returns: as ccc_put_string
 */
int ccc_put_strings(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape,
                    const char *const *values);

/* ---- Keywords -------------------------------------------------------------------------------------------------- */

/*
 * Keywords of the table (column NULL) or of a column. A name may be a path into records: "MEASINFO.Ref". Putting
 * creates missing records, and replaces an existing value.
 */

/*
 * ccc_keyword_names - list names at the top level.
 * Returned: *names [*n]  one block of memory, freed by one ccc_free
 * Returns:  0, CCC_ENOTFOUND (no such column)
 */
int ccc_keyword_names(ccc_table *t, const char *column, char ***names, int64_t *n);

/*
 * ccc_keyword_type - return the type of a keyword's value.
 * Returned: *type; *n number of its elements (1 for a scalar) or, for a record, of its fields; n may be NULL
 * Returns:  0, CCC_ENOTFOUND
 */
int ccc_keyword_type(ccc_table *t, const char *column, const char *name, ccc_type *type, int64_t *n);

/*
 * ccc_keyword_get_string, _strings, _double, _int, _ints - get the value of a keyword. _double accepts any real number,
 * _int any integer and booleans.
 * Returned: *out  of strings and lists one block of memory, freed by one ccc_free, and NULL on failure; [*n] of lists
 * Returns:  0, CCC_ENOTFOUND, CCC_ETYPE
 */
int ccc_keyword_get_string(ccc_table *t, const char *column, const char *name, char **out);
int ccc_keyword_get_strings(ccc_table *t, const char *column, const char *name, char ***out, int64_t *n);
int ccc_keyword_get_double(ccc_table *t, const char *column, const char *name, double *out);
int ccc_keyword_get_int(ccc_table *t, const char *column, const char *name, int64_t *out);
int ccc_keyword_get_ints(ccc_table *t, const char *column, const char *name, int64_t **out, int64_t *n);

/*
 * ccc_column_factor - return the factor that converts the values of a column to a unit, from the keyword QuantumUnits.
 * Given:    unit     such as "Hz", "m", "rad"
 * Returned: *factor  1 without the keyword
 * Returns:  0, CCC_ENOTFOUND (no such column), CCC_EFAILED (the units are of another kind, or differ)
 */
int ccc_column_factor(ccc_table *t, const char *column, const char *unit, double *factor);

/* ccc_keyword_put_string, _strings, _double, _int, _bool - set a keyword. Returns: 0, CCC_ENOTFOUND (no such column),
 * CCC_ETYPE (part of the path is not a record), CCC_EREADONLY, CCC_EFAILED. */
int ccc_keyword_put_string(ccc_table *t, const char *column, const char *name, const char *value);
int ccc_keyword_put_strings(ccc_table *t, const char *column, const char *name, const char *const *values, int64_t n);
int ccc_keyword_put_double(ccc_table *t, const char *column, const char *name, double value);
int ccc_keyword_put_int(ccc_table *t, const char *column, const char *name, int32_t value);
int ccc_keyword_put_bool(ccc_table *t, const char *column, const char *name, int value);

/*
 * ccc_keyword_copy - copy all keywords of a column to another one of the same table, replacing keywords of the
 * same names.
 * Returns: 0, CCC_ENOTFOUND (no such column), CCC_EREADONLY
 */
int ccc_keyword_copy(ccc_table *t, const char *from_column, const char *to_column);

/* ccc_keyword_remove - remove a keyword or a field of a record. Returns: 0, CCC_ENOTFOUND, CCC_EREADONLY. */
int ccc_keyword_remove(ccc_table *t, const char *column, const char *name);

/* ---- New tables and columns ------------------------------------------------------------------------------------ */

/* A column to create. In ccc_ms_create a standard column needs only its name, and its shape if that is fixed. */
typedef struct ccc_column_spec {
    const char *name;
    ccc_type type;
    int ndim;           /* number of dimensions of a cell: 0 scalar, -1 any */
    int is_fixed_shape; /* every cell has shape[]; TiledColumnStMan needs this */
    int64_t shape[CCC_MAX_DIM];
    const char *comment; /* or NULL */
} ccc_column_spec;

/* A separate storage manager for some columns. */
typedef struct ccc_storage {
    const char *type; /* "StandardStMan", "IncrementalStMan", "TiledColumnStMan", "TiledShapeStMan" */
    const char *name; /* unique in the table; NULL: "Tiled", "Std" or "Inc" and the first column's name, and
                                 * in ccc_column_add a number if there is such a manager already */
    int n_column;
    const char *const *columns; /* not used by ccc_column_add */
    int bucket_bytes;           /* StandardStMan: bytes read and written together; 0: 32 rows of its columns */
    int tile_ndim;              /* tiled types: the cell's dimensions and, last, the row */
    int64_t tile_shape[CCC_MAX_DIM];
} ccc_storage;

/*
 * ccc_ms_create - make an empty Measurement Set with its standard subtables.
 *
 * The main table gets the required columns and those named in columns[] (DATA, CORRECTED_DATA, MODEL_DATA,
 * WEIGHT_SPECTRUM .. with their standard types and keywords; other names with the given type). A required column named
 * in columns[] is given that shape; UVW is fixed at {3}. Columns that are not in storage[] share one StandardStMan.
 *
 * The subtables are ANTENNA, DATA_DESCRIPTION, FEED, FIELD, FLAG_CMD, HISTORY, OBSERVATION, POINTING, POLARIZATION,
 * PROCESSOR, SPECTRAL_WINDOW, STATE, all with 0 rows: reach them by ccc_subtable_open, and close them.
 *
 * Returned: *out opened for update and locked
 * Returns: 0, CCC_EARGUMENT (path exists; storage names an unknown column), CCC_EREADONLY, CCC_EFAILED
 */
int ccc_ms_create(ccc_table **out, const char *path, const ccc_column_spec *columns, int n_column,
                  const ccc_storage *storage, int n_storage);

/*
 * ccc_ms_add_source - add an empty SOURCE subtable with its standard columns and REST_FREQUENCY, SYSVEL, TRANSITION.
 * Returns: 0, CCC_EARGUMENT (it exists), CCC_EREADONLY, CCC_EFAILED
 */
int ccc_ms_add_source(ccc_table *ms);

/* ccc_table_create - make an empty table of any kind; path, storage, result and codes as in ccc_ms_create. */
int ccc_table_create(ccc_table **out, const char *path, const ccc_column_spec *columns, int n_column,
                     const ccc_storage *storage, int n_storage);

/*
 * ccc_column_add - add a column with its own storage manager, so that no existing data file is rewritten.
 * The cells of a new array column have no value until they are written (ccc_put_range).
 * Returns: 0, CCC_EARGUMENT (the column exists), CCC_EREADONLY, CCC_EFAILED
 */
int ccc_column_add(ccc_table *t, const ccc_column_spec *column, const ccc_storage *storage);

/*
 * ccc_column_remove - remove a column, with the files of its storage manager. Other columns of that manager are copied
 * to a new one, so that the removed column's space is freed.
 *
 * Returns: 0, CCC_ENOTFOUND, CCC_EARGUMENT (it is stored with others by a manager that is neither StandardStMan nor
 *          IncrementalStMan), CCC_EREADONLY, CCC_EFAILED
 * Notes:   casacore deletes the files at once, but replaces table.dat at the next flush: a process that is killed in
 *          between leaves a table that cannot be opened.
 */
int ccc_column_remove(ccc_table *t, const char *column);

/* ccc_column_rename - rename a column. Returns: 0, CCC_ENOTFOUND, CCC_EARGUMENT (new_name exists), CCC_EREADONLY,
 * CCC_EFAILED. */
int ccc_column_rename(ccc_table *t, const char *old_name, const char *new_name);

/* ---- Copies ---------------------------------------------------------------------------------------------------- */

/*
 * ccc_subtable_names - list the names of the keywords that refer to subtables.
 * Returned: *names [*n]  one block of memory, freed by one ccc_free; NULL on failure
 * Returns:  0, CCC_ENOMEM
 */
int ccc_subtable_names(ccc_table *t, char ***names, int64_t *n);

/*
 * ccc_subtable_append - append rows of a table to subtable `name` of a Measurement Set. If the subtable does not exist
 * or has no rows, it is made with the columns, keywords and storage of `from`; shapes that are fixed in `from`, but not
 * by the Measurement Set definition, become variable. Otherwise the columns that exist in both are copied.
 *
 * Given:   to_ms  open for update; rows [n_row]  of `from`, ascending; n_row may be 0
 * Returns: 0, CCC_EARGUMENT (no such row), CCC_EREADONLY, CCC_EREFUSED (of `from` or a table that its keywords name),
 *          CCC_EFAILED
 * Notes: the caller must close its handles of the subtable first.
 */
int ccc_subtable_append(ccc_table *to_ms, const char *name, ccc_table *from, const int64_t *rows, int64_t n_row);

/* ccc_column_take_keywords - copy the keywords of a column to a column of another table, replacing those of the same
 * names. Returns: 0, CCC_ENOTFOUND (no such column), CCC_EREADONLY. */
int ccc_column_take_keywords(ccc_table *to, ccc_table *from, const char *to_column, const char *from_column);

/* ---- Selection ------------------------------------------------------------------------------------------------- */

/* CASA's MSSelection expressions; NULL or "" selects everything. */
typedef struct ccc_ms_expressions {
    const char *field;       /* "3C286", "0~2" */
    const char *spw;         /* "0:5~60,1" */
    const char *antenna;     /* "0&&&", "!ea01" */
    const char *uvrange;     /* ">1km", "0~500lambda" */
    const char *time;        /* "2020/01/01/10:00:00~11:00:00" */
    const char *scan;        /* "3~5" */
    const char *observation; /* "0,2" */
    const char *intent;      /* "*TARGET*" */
} ccc_ms_expressions;

/* Channels begin, begin + step .. up to and including last of a spectral window. */
typedef struct ccc_chan_range {
    int32_t spw_id, begin, last, step;
} ccc_chan_range;

/*
 * ccc_ms_select - find the rows and channels that expressions select.
 *
 * Returned: *rows  [*n_row] ascending; *ranges [*n_range] channels by spectral window, none without a spw expression.
 *           Both freed by ccc_free. ranges and n_range may be NULL.
 * Returns:  0, CCC_EFAILED (an expression is invalid or matches nothing; the message names it)
 */
int ccc_ms_select(ccc_table *ms, const ccc_ms_expressions *expressions, int64_t **rows, int64_t *n_row,
                  ccc_chan_range **ranges, int64_t *n_range);

/*
 * ccc_table_query - find the rows for which a TaQL condition, such as "ANTENNA1 != ANTENNA2 and UVW[3] > 0", is true.
 * Returned: *rows  [*n_row] ascending, freed by ccc_free
 * Returns:  0, CCC_EREFUSED (as in ccc_table_open, for a table that keywords name), CCC_EFAILED (it is invalid)
 * Notes:    indices count from 1, so that UVW[3] is w. A condition can call functions of libraries by their names.
 */
int ccc_table_query(ccc_table *t, const char *condition, int64_t **rows, int64_t *n_row);

/* ---- Images ---------------------------------------------------------------------------------------------------- */

enum { CCC_IMAGE_PARAMETERS = 20 };

/* Sky coordinates of the first two axes of a CASA image, in the terms of FITS, except that pixels are counted from 0.
 * */
typedef struct ccc_image_axes {
    char system[32];     /* J2000, ICRS, B1950, GALACTIC .. */
    char projection[16]; /* SIN, TAN .. */
    double crval_deg[2], cdelt_deg[2], crpix[2];
    double pc[2][2];
    double lonpole_deg, latpole_deg; /* NaN if the image does not have them */
    int n_parameter;                 /* parameters of the projection: PV2_1 .. */
    double parameter[CCC_IMAGE_PARAMETERS];
} ccc_image_axes;

/*
 * ccc_image_direction - read the sky coordinates of a CASA image, whose pixels are the cell of the column `map`.
 * Given:    t  an image, opened as a table
 * Returned: *out
 * Returns:  0, CCC_ENOTFOUND (not an image, or its first two axes are not on the sky), CCC_ESHAPE, CCC_EFAILED
 */
int ccc_image_direction(ccc_table *t, ccc_image_axes *out);

/* ---- Measures -------------------------------------------------------------------------------------------------- */

/* The position, time scale and direction for a conversion of frequencies. */
typedef struct ccc_observer {
    const char *time_scale;      /* time scale of the times: "UTC", "TAI" .. */
    double itrf_m[3];            /* position, ITRF metres */
    const char *direction_frame; /* "J2000" ..; or a planet, the Sun or the Moon: the direction is not used then */
    double lon_rad, lat_rad;     /* direction */
} ccc_observer;

/*
 * ccc_frequency_ratios - return the ratios of frequencies in one reference frame to those in another.
 *
 * Given:    from, to  "TOPO", "GEO", "BARY", "LSRK", "LSRD", "GALACTO", "LGROUP", "CMB"
 *           n, mjd_s  times [n], MJD seconds
 * Returned: ratio     [n] of the frequency in frame `to` to that in frame `from`
 * Returns:  0, CCC_EARGUMENT (unknown frame or scale), CCC_EFAILED
 */
int ccc_frequency_ratios(const char *from, const char *to, const ccc_observer *observer, int64_t n, const double *mjd_s,
                         double *ratio);

/*
 * ccc_direction_convert - convert a direction between reference frames.
 *
 * Given:    from, to  "J2000", "ICRS", "B1950", "GALACTIC", "APP", "AZEL", "SUN" ..
 *           mjd_s     UTC, MJD seconds
 *           itrf_m    observer's position [3], ITRF metres; NULL if the frames do not need it
 * Given and returned:
 *           lon_rad, lat_rad  not used if `from` is a planet, the Sun or the Moon; the returned lon_rad is 0 to 2 pi
 * Returns:  0, CCC_EARGUMENT (unknown frame), CCC_EFAILED
 */
int ccc_direction_convert(const char *from, const char *to, double mjd_s, const double *itrf_m, double *lon_rad,
                          double *lat_rad);

/*
 * ccc_epoch_convert - convert a time between scales.
 * Given:    from, to  "UTC", "TAI", "UT1" ..
 * Given and returned: *mjd_s  MJD seconds
 * Returns:  0, CCC_EARGUMENT (unknown scale), CCC_EFAILED
 * Notes:    UT1 needs casacore's tables of the Earth's rotation. Without them, or at dates beyond them, UT1 equals UTC.
 */
int ccc_epoch_convert(const char *from, const char *to, double *mjd_s);

#ifdef __cplusplus
}
#endif

#endif
