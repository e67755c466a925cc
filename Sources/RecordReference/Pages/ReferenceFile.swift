import Documents

/// A file of the repository that this module generates, for example the schema of a ``RecordFormat``.
package struct ReferenceFile: Sendable {
    /// The path from the root of the repository.
    package var path: String
    package var text: String

    /// Returns all generated files.
    ///
    /// - Parameter version: the release of Causeway, for the AsyncAPI document.
    package static func all(version: String) -> [ReferenceFile] {
        RecordFormat.all.map { ReferenceFile(path: $0.schemaPath, text: $0.schema.json) } + [
            ReferenceFile(path: AsyncAPIFile.path, text: AsyncAPIFile.text(version: version)),
            ReferenceFile(path: RecordPage.path, text: RecordPage.markdown),
            ReferenceFile(path: LibraryRulesFile.path, text: LibraryRulesFile.text),
            ReferenceFile(path: LibraryOutcomesFile.path, text: LibraryOutcomesFile.text),
            ReferenceFile(path: AcceptanceOutcomesFile.path, text: AcceptanceOutcomesFile.text),
        ]
    }
}
