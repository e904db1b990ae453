//! The doors through which clients come.
