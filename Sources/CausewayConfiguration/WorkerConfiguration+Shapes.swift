import LiveActivity

/// Why a file of shapes cannot be read, or is not valid. The description names the file.
package struct ShapesFileError: Error, Equatable, CustomStringConvertible {
    package var path: String
    package var reason: String

    package var description: String { "\(path): \(reason)" }
}

extension WorkerConfiguration.App {
    /// Reads the file of the app's shapes; nil if no file is configured.
    package func readContractRule() throws(ShapesFileError) -> ContractRule? {
        guard let path = shapes.file else { return nil }
        let text: String
        do {
            text = try ConfigurationFile.readText(path: path, bytesMax: Contract.fileBytesMax)
        } catch {
            throw ShapesFileError(path: path, reason: error.reason)
        }
        let bytes = Array(text.utf8)
        let contract: Result<Contract, ShapesFault> = bytes.withUnsafeBytes { bytes in
            do throws(ShapesFault) {
                return .success(try Contract(shapes: bytes, ofApp: bundleId))
            } catch {
                return .failure(error)
            }
        }
        switch contract {
        case .success(let contract): return ContractRule(contract: contract, rejectsMismatches: shapes.mode == .refuse)
        case .failure(let fault): throw ShapesFileError(path: path, reason: fault.description)
        }
    }
}
