/// The release of both programs; `CHANGELOG.md` says what it contains.
package enum Release {
    package static let version = "0.1.0"
}
