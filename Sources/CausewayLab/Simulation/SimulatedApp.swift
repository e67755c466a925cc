import APNsSimulator
import CausewayCommandLine
import Foundation

/// An app of simulated phones, as a `shapes.json` declares it. The JSON has the same form as for `POST /apps` of the
/// control interface.
struct SimulatedApp {
    var app: String
    var teamId: String?
    var types: [DeviceModel.TypeDeclaration]

    /// Reads all apps of a file, which has JSON objects one after another.
    static func read(path: String) throws -> [SimulatedApp] {
        let file = InputFile(path: path)
        var apps: [SimulatedApp] = []
        try file.forEachRecord { record in
            guard let object = try? JSONSerialization.jsonObject(with: Data(record.bytes)) as? [String: Any],
                let app = object["app"] as? String, let types = object["attributesTypes"] as? [[String: Any]]
            else {
                throw LabError("\(file.name):\(record.lineNumber): must be an object with app and attributesTypes")
            }
            do {
                apps.append(
                    SimulatedApp(
                        app: app,
                        teamId: object["teamId"] as? String,
                        types: try types.map(parseDeclaration)
                    )
                )
            } catch {
                throw LabError("\(file.name):\(record.lineNumber): \(error)")
            }
        }
        return apps
    }

    private static func parseDeclaration(_ object: [String: Any]) throws -> DeviceModel.TypeDeclaration {
        func parseShape(_ name: String) throws -> Shape {
            let data = try JSONSerialization.data(withJSONObject: object[name] as? [String: Any] ?? [:])
            return try Shape(json: String(decoding: data, as: UTF8.self))
        }
        return DeviceModel.TypeDeclaration(
            name: object["name"] as? String ?? "",
            attributes: try parseShape("attributes"),
            contentState: try parseShape("contentState"),
            identifierAttribute: object["identifierAttribute"] as? String
        )
    }
}
