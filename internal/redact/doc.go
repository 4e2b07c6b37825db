// Package redact makes texts of a participant, above all its errors, fit to be kept and shown:
// [Text] removes secrets, and limits the length.
package redact
