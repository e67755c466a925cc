/// The release of `causeway` and `causeway-lab`; `CHANGELOG.md` says what it contains.
package enum Release {
    package static let version = "0.1.0"
}
