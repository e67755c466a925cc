import Documents

/// A text about all keys, generated from `ConfigurationSchema`. A test checks that the copy in the repository is up to
/// date.
package enum GeneratedConfigurationText: String, CaseIterable, Sendable {
    /// `Config/causeway.yaml`, the documented file.
    case documentedFile = "yaml"
    /// `Config/causeway.schema.json`, for editors.
    case fileSchema = "json-schema"
    /// `Helm/causeway/CONFIG.md`.
    case chartPage = "markdown"
    /// The schema of `config` in `Helm/causeway/values.schema.json`.
    case chartSchema = "chart-schema"

    /// The name of the JSON Schema, which is in the same folder as `Config/causeway.yaml`.
    package static let schemaFile = "causeway.schema.json"

    package var text: String {
        switch self {
        case .documentedFile:
            YAMLPage.text(of: .wholeFile, introduction: ConfigurationSchema.introduction, schemaFile: Self.schemaFile)
        case .fileSchema: JSONSchemaPage.fileSchema(of: .wholeFile).json
        case .chartPage: ConfigurationPage.text(of: ConfigurationSchema.descriptions)
        case .chartSchema: JSONSchemaPage.chartSchema(of: .wholeFile).json
        }
    }
}
