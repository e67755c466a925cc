/// A file of the live page. The files are part of the program.
enum PageFile: String, CaseIterable {
    case page = "/"
    case style = "/page.css"
    case main = "/main.js"
    case field = "/field.js"
    case wall = "/wall.js"
    case lockScreen = "/lockscreen.js"
    case figures = "/figures.js"
    case story = "/story.js"

    init?(path: String) { self.init(rawValue: path) }

    var contentType: String {
        switch self {
        case .page: "text/html; charset=utf-8"
        case .style: "text/css; charset=utf-8"
        default: "text/javascript; charset=utf-8"
        }
    }

    var content: [UInt8] {
        switch self {
        case .page: PackageResources.page_html
        case .style: PackageResources.page_css
        case .main: PackageResources.main_js
        case .field: PackageResources.field_js
        case .wall: PackageResources.wall_js
        case .lockScreen: PackageResources.lockscreen_js
        case .figures: PackageResources.figures_js
        case .story: PackageResources.story_js
        }
    }
}
